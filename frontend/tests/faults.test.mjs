// Bugs that users reported, each reproduced in a test: what the page shows and does
// while it waits, and where it shows errors.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { totalmem } from 'node:os';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, launch, leave, say, visit, write } from './browser.mjs';
import { conversation, newHome, playHub, ramble, serve } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const box = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

describe('a first chat', () => {
  let server;
  before(async () => {
    server = await serve(newHome(true, 'predict = 200\n', 'kv_calibrate = true\nctx_size = 8192\nthreads = 1\n')); // no cache types, so the server chooses them
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  it('has calibrated types, does not wait for a calibration, and says that one is measured', async () => {
    const { fields } = await server.api('GET', '/app/settings');
    assert.equal(fields.find((f) => f.name === 'engine.kv_preset').value, 'quality', 'as in the window');
    const page = await visit(browser, server.url);
    await page.evaluate(() => {
      globalThis.seen = new Set();
      new MutationObserver(() => globalThis.seen.add(document.querySelector('.waiting')?.textContent ?? '')).observe(document, { childList: true, subtree: true, characterData: true });
    });
    await say(page, 'What is a godwit?');
    await page.locator('article:not(.mine) .prose').first().waitFor();
    const seen = await page.evaluate(() => [...globalThis.seen].join('\n'));
    assert.doesNotMatch(seen, /another response|calibrating the KV cache/);
    const plan = await server.api('GET', '/app/kv/active?model=small');
    assert.match(plan.layers[0].k.active, /^gw/);
    assert.match(plan.layers[0].k.reason, /calibrated by each conversation/);
    await answered(page);
    await page.getByText(/One-time setup of small in the background: calibrating the KV cache · \d+%/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(/calibrating the KV cache/).waitFor({ state: 'detached' });
    await leave(page);
  });

  it('shows tokens, speed and the growing context while it is answered', async (t) => {
    t.after(await ramble(server));
    const page = await visit(browser, server.url);
    await write(page, 'Tell me a long story about a lighthouse keeper and a storm.');
    await page.locator('[data-live]').filter({ hasText: /\d+ tokens · [\d.]+ tokens\/s/ }).waitFor();
    const used = () => page.locator('a.meter .used-of').innerText();
    const first = await used();
    await page.waitForFunction((first) => document.querySelector('a.meter .used-of')?.textContent !== first, first);
    await page.getByRole('button', { name: 'Stop' }).click();
    await answered(page);
    await leave(page);
  });

  it('queues a message that is written during an answer, and says so', async (t) => {
    const usual = await ramble(server);
    t.after(usual);
    const page = await visit(browser, server.url);
    await write(page, 'Tell me a long story about a fox.');
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.locator('article:not(.mine) .prose').first().waitFor(); // after an empty answer, the small model returns only empty ones
    await write(page, 'And now one about a hen.');
    await page.getByText('Your message will be sent when this response is finished.').waitFor();
    await page.getByRole('button', { name: "Don't send" }).click();
    assert.equal(await box(page).inputValue(), 'And now one about a hen.');
    await page.keyboard.press('Enter');
    await page.getByText('Your message will be sent when this response is finished.').waitFor();
    await usual();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('.said', { hasText: 'one about a hen' }).waitFor();
    assert.equal(await box(page).inputValue(), '');
    await page.locator('article:not(.mine)').nth(1).locator('.prose').waitFor(); // otherwise Escape would stop an answer that is still empty
    await page.keyboard.press('Escape');
    await answered(page);
    await leave(page);
  });

  it('sends a suggestion with Enter', async () => {
    const page = await visit(browser, server.url);
    await page.getByRole('button', { name: /linked list/ }).click();
    await page.keyboard.press('Enter');
    await page.locator('.said', { hasText: 'linked list' }).waitFor();
    await answered(page);
    await leave(page);
  });
});

describe('the page', () => {
  let server;
  before(async () => {
    server = await serve(newHome(true, 'predict = 60\n', 'threads = 1\n'));
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  async function opened(title, messages, options) {
    const { chats } = await server.api('POST', '/app/import', conversation(title, messages));
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`, options);
    await page.locator('article').last().waitFor();
    return page;
  }

  it('drops the jump button when the chat gets short', async () => {
    const page = await opened('Shortened', ['One.', 'word '.repeat(3000), 'Two.', 'Hi.']);
    const messages = page.getByRole('region', { name: 'Messages' });
    await messages.evaluate((box) => (box.scrollTop = 0));
    await page.getByRole('button', { name: 'Jump to latest' }).waitFor();
    const first = page.locator('article').first();
    await first.hover();
    await first.getByRole('button', { name: 'Edit' }).click();
    const field = page.getByRole('textbox', { name: 'Edit message' });
    const size = (l) => l.evaluate((e) => getComputedStyle(e).fontSize);
    assert.equal(await size(field), await size(page.locator('.said').first()));
    await field.fill('Say hello.');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('button', { name: 'Jump to latest' }).waitFor({ state: 'detached' });
    await answered(page);
    await leave(page);
  });

  it('closes the chat settings with Escape', async () => {
    const page = await opened('A panel', ['One.', 'Two.']);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.getByLabel('System prompt').waitFor();
    await page.keyboard.press('Escape');
    await page.getByLabel('System prompt').waitFor({ state: 'detached' });
    await leave(page);
  });

  it('opens each section of the settings at its top', async () => {
    const page = await visit(browser, `${server.url}/#/settings/server`, { viewport: { width: 1280, height: 400 } });
    const body = page.locator('.settings .body');
    await page.getByText('API keys', { exact: true }).waitFor();
    await body.evaluate((box) => (box.scrollTop = 350));
    await page.getByRole('link', { name: 'Sampling', exact: true }).click();
    await page.getByText('Temperature').first().waitFor();
    await drawn(page);
    assert.equal(await body.evaluate((box) => box.scrollTop), 0);
    await leave(page);
  });

  it('leaves names of files as they are, and says beside the field what is wrong', async () => {
    const page = await visit(browser, `${server.url}/#/models`);
    await page.getByLabel('Path to a GGUF file or folder').fill('/nowhere/x.gguf');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('alert').getByText('There is no file or folder /nowhere/x.gguf').waitFor();
    assert.equal(await page.locator('.toast').count(), 0);
    await page.evaluate(() => (location.hash = '#/chat'));
    await page.locator('form.composer').waitFor();
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Attach text files' }).click()]);
    await chooser.setFiles({ name: 'bin.pdf', mimeType: 'application/pdf', buffer: Buffer.from([0, 1, 2, 255]) });
    await page.getByText("bin.pdf can't be attached").waitFor();
    await leave(page);
  });

  it('writes numbers as its sentences, whatever the language of the system', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`, { locale: 'de-DE' });
    await page.getByText(/At [\d,]+ tokens, the cache takes [\d.]+ [KMG]iB/).waitFor();
    await leave(page);
  });

  it('says beside the context what is wrong with it, and the plot shows the length of the text', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    const field = page.getByRole('textbox', { name: 'Context length in tokens' });
    const type = async (text) => {
      await field.fill(text);
      await field.press('Tab');
    };
    const before = (await server.api('GET', '/app/settings')).fields.find((f) => f.name === 'engine.ctx_size').value;
    await type('abc');
    await page.getByText('Enter a whole number of tokens, or leave the field empty for the automatic length.').waitFor();
    assert.equal((await server.api('GET', '/app/settings')).fields.find((f) => f.name === 'engine.ctx_size').value, before, 'nothing is saved');
    await type('32768');
    await page.locator('#context-note').getByText(/trained/).waitFor();
    await type('4000000');
    await page.locator('#context-note').getByText(/4,?000,?000 tokens/).first().waitFor();
    const free = await page.getByText(/of [\d.]+ GiB free/).first().innerText();
    assert.ok(Number(/of ([\d.]+) GiB free/.exec(free)[1]) <= totalmem() / 2 ** 30, free);
    await page.getByText(/At 4,000,000 tokens, the cache takes [\d.]+ GiB/).waitFor();
    assert.match(await page.locator('figure .legend').innerText(), /4,000,000 tokens/);
    await type('4096');
    await page.getByText(/At 4,096 tokens, the cache takes/).waitFor();
    await leave(page);
  });

  it('says in units what a load lacks, and what would fit', async () => {
    await server.api('POST', '/app/settings', { changes: { 'engine.ctx_size': 16_777_216 } });
    const page = await visit(browser, `${server.url}/#/models`);
    const card = page.getByRole('article', { name: 'small' });
    const unload = card.getByRole('button', { name: 'Unload' });
    await card.waitFor();
    if (await unload.isVisible()) await unload.click();
    await card.getByRole('button', { name: 'Load', exact: true }).click();
    const fault = card.getByRole('alert');
    await fault.getByText(/takes [\d.]+ GiB with the model, [\d.]+ [GM]iB is free; the largest that fits is \d+ tokens/).waitFor();
    assert.doesNotMatch(await fault.innerText(), /\d{9}/);
    await server.api('POST', '/app/settings', { changes: { 'engine.ctx_size': 4096 } });
    await leave(page);
  });

  it('scrolls a table in a narrow window instead of breaking its words apart', async () => {
    const table = '| Name | What it is | Where it lives |\n|---|---|---|\n| Godwit | A long-billed wader | Mudflats and estuaries |';
    const page = await opened('A table', ['A table, please.', table], { viewport: { width: 420, height: 800 } });
    const widths = await page.locator('.prose td').evaluateAll((all) => all.map((cell) => cell.offsetWidth));
    assert.ok(widths.every((w) => w >= 110), `${widths}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await leave(page);
  });

  it('answers behind an answer that was stopped before its first word', async () => {
    const page = await opened('Stopped early', ['Hello.', '']);
    await say(page, 'Name one bird.');
    assert.notEqual(await answered(page), '');
    await leave(page);
  });

  it('says how far the prompt is, how fast it is read, and what of it was cached', async () => {
    const page = await visit(browser, server.url);
    await page.evaluate(() => {
      globalThis.seen = new Set();
      const look = () => globalThis.seen.add(`${document.querySelector('.waiting')?.textContent} @ ${document.querySelector('a.meter .used-of')?.textContent}`);
      new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
    });
    await write(page, `${'The godwit flies over the sea without a rest. '.repeat(250)}What does it do?`);
    await answered(page);
    const seen = await page.evaluate(() => [...globalThis.seen]);
    assert.ok(seen.some((text) => /Processing prompt · \d+% · [\d,]+ of [\d,]+ tokens · [\d.,]+ tokens\/s/.test(text)), seen.join('\n'));
    const used = new Set(seen.filter((text) => text.includes('Processing prompt')).map((text) => text.split(' @ ')[1]));
    assert.ok(used.size > 1, `the context grows while the prompt is read: ${[...used]}`);
    await say(page, 'And then?');
    await answered(page);
    await page.getByText(/[\d,]+ of [\d,]+ prompt tokens cached in memory/).waitFor();
    await leave(page);
  });

  it('says what failed where it failed, until it is tried again', async () => {
    const page = await visit(browser, `${server.url}/#/settings/runtime`);
    const row = page.locator('.setting', { has: page.getByLabel('Threads', { exact: true }) });
    await page.getByLabel('Threads', { exact: true }).fill('many');
    await page.keyboard.press('Enter');
    await row.getByRole('alert').waitFor();
    assert.equal(await page.locator('.toast').count(), 0);
    await page.getByLabel('Threads', { exact: true }).fill('');
    await page.keyboard.press('Enter');
    await row.getByRole('alert').waitFor({ state: 'detached' });
    await page.goto(`${server.url}/#/chat`);
    await page.route('**/app/chats', (route) => route.fulfill({ status: 507, json: { error: { message: 'the disk is full' } } }));
    await write(page, 'Hello?');
    await page.locator('.foot').getByRole('alert').getByText('The disk is full').waitFor();
    assert.equal(await page.locator('.toast').count(), 0);
    await leave(page);
  });

  it('borders messages where the system chooses the colours', async () => {
    const page = await opened('In high contrast', ['One.', 'Two.'], { forcedColors: 'active' });
    assert.notEqual(await page.locator('.said').first().evaluate((e) => getComputedStyle(e).borderTopWidth), '0px');
    await leave(page);
  });

  it('says that the model of a chat is gone', async () => {
    const text = conversation('With another model', ['One.', 'Two.']).replace('"model":"small"', '"model":"vanished"');
    const { chats } = await server.api('POST', '/app/import', text);
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
    await page.getByText('vanished is no longer in your library. small will respond instead.').waitFor();
    await leave(page);
  });

  it('takes in the conversations of ChatGPT, and tells twins apart', async () => {
    const node = (id, parent, role, text) => ({ id, parent, message: role && { author: { role }, create_time: 1767225601, content: { content_type: 'text', parts: [text] } } });
    const mapping = Object.fromEntries([node('r', null), node('a', 'r', 'user', 'Which bird?'), node('b', 'a', 'assistant', 'A godwit.')].map((n) => [n.id, n]));
    const text = JSON.stringify([{ title: 'From elsewhere', create_time: 1767225600, current_node: 'b', mapping }]);
    const { chats } = await server.api('POST', '/app/import', text);
    const twin = (await server.api('POST', '/app/import', text)).chats[0];
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
    await page.getByText('A godwit.').waitFor();
    assert.equal(twin.title, 'From elsewhere (imported)');
    await page.getByRole('link', { name: 'From elsewhere (imported)' }).waitFor();
    await leave(page);
  });
});

describe('a server that goes', () => {
  it('takes the Stop button with it', async () => {
    const server = await serve(newHome(true));
    const page = await visit(browser, server.url);
    await write(page, 'Tell me a very long story about the sea.');
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await server.stop();
    await page.getByText("Can't reach Godwit. Reconnecting…").waitFor();
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    await leave(page);
    server.remove();
  });
});

describe('a licence to accept', () => {
  it('has a link, and a place for the token that goes to the hub alone', async () => {
    const asked = [];
    const hub = createServer((request, answer) => {
      asked.push(request.headers.authorization ?? '');
      const repo = { id: 'birds/gated-GGUF', gated: 'manual', sha: 'a'.repeat(40), tags: [], siblings: [{ rfilename: 'g-Q4_1.gguf', size: 9 }] };
      answer.setHeader('Content-Type', 'application/json');
      answer.end(JSON.stringify(new URL(request.url, 'http://hub').pathname === '/api/models' ? [repo] : repo));
    });
    await new Promise((done) => hub.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${hub.address().port}`;
    const server = await serve(newHome(false), ['--hub-url', url]);
    try {
      const page = await visit(browser, `${server.url}/#/settings/library`);
      const token = page.getByRole('textbox', { name: 'Hub access token' });
      assert.equal(await token.getAttribute('type'), 'password');
      await token.fill('hf_secret123');
      await token.blur();
      await page.getByPlaceholder('Already set. Enter a new value to replace it.').waitFor();
      await page.waitForFunction(() => document.querySelector('input[type=password]').value === '');
      assert.ok(!JSON.stringify(await server.api('GET', '/app/settings')).includes('hf_secret123'));
      await page.goto(`${server.url}/#/models/hub`);
      await page.getByLabel('Search the hub').fill('gated');
      await page.keyboard.press('Enter');
      await page.getByText('Licence must be accepted').waitFor();
      assert.equal(await page.getByRole('link', { name: "the model's page" }).getAttribute('href'), `${url}/birds/gated-GGUF`);
      assert.ok(asked.includes('Bearer hf_secret123'), `${asked}`);
      assert.ok(!server.log().includes('hf_secret123'));
      await leave(page);
    } finally {
      await server.stop();
      server.remove();
      hub.close();
    }
  });
});

describe('a download', () => {
  it('never says 0 B, and keeps no share of a file that was refused', async () => {
    const hub = await playHub();
    hub.spoil = true;
    const server = await serve(newHome(false), ['--hub-url', hub.url]);
    try {
      const page = await visit(browser, `${server.url}/#/models`);
      await page.evaluate(() => {
        globalThis.seen = [];
        new MutationObserver(() => globalThis.seen.push(document.querySelector('[aria-label=Downloads]')?.textContent ?? '')).observe(document, { childList: true, subtree: true, characterData: true });
      });
      await server.api('POST', '/app/downloads', { ref: 'birds/godwit-GGUF:Q4_1' });
      const row = page.getByRole('region', { name: 'Downloads' });
      await row.getByRole('alert').waitFor();
      await row.getByText('Failed', { exact: true }).waitFor();
      assert.doesNotMatch(await row.innerText(), /%/);
      const seen = (await page.evaluate(() => globalThis.seen)).join('\n');
      assert.doesNotMatch(seen, /of 0 B|\b0 ms left/);
      await leave(page);
    } finally {
      await server.stop();
      server.remove();
      hub.close();
    }
  });
});
