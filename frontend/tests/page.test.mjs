// The page in a real browser, on the real server with the real small model.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, launch, leave, say, told, visit } from './browser.mjs';
import { modelFile, newHome, playHub, serve } from './server.mjs';

const story = 'Tell me a very long story about a bird that flies over the sea.';
let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

describe('the first start', () => {
  let server;
  before(async () => {
    server = await serve(newHome(false));
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  it('shows the message box without a model', async () => {
    const page = await visit(browser, server.url);
    await page.locator('textarea').waitFor();
    await page.getByText('Choose a model to get started').waitFor();
    await leave(page);
  });

  it('adds a file in place, loads it, and says so', async () => {
    const page = await visit(browser, `${server.url}/#/models`);
    await page.getByLabel('Path to a GGUF file or folder').fill('nowhere/x.gguf');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('Enter the full path').waitFor();
    await page.getByLabel('Path to a GGUF file or folder').fill(modelFile());
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    const card = page.locator('article.card').first();
    await card.getByText(/linked/).first().waitFor();
    await card.getByRole('button', { name: 'Load', exact: true }).click();
    await card.locator('.tag.good').waitFor();
    await card.getByRole('button', { name: 'Unload' }).click();
    await card.getByRole('button', { name: 'Load', exact: true }).waitFor();
    await leave(page);
  });
});

describe('chatting', () => {
  let server;
  before(async () => {
    server = await serve(newHome(true, '', 'context_shift = true\n')); // so that no story ends by itself
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  it('answers, with figures, and names the chat', async () => {
    const page = await visit(browser, server.url);
    await say(page, 'What is the capital of France?');
    const words = await answered(page);
    assert.ok(words.trim().length > 0);
    await page.getByText(/tokens\/s/).waitFor();
    await page.getByRole('link', { name: 'What is the capital of France?' }).waitFor();
    await page.locator('a.meter').waitFor();
    await leave(page);
  });

  it('stops, and keeps what there is', async () => {
    const page = await visit(browser, server.url);
    await say(page, story);
    await page.waitForFunction(() => (document.querySelector('article:not(.mine) .prose')?.textContent?.length ?? 0) > 60);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('article[data-status=stopped]').waitFor();
    assert.ok((await answered(page)).length > 40);
    await leave(page);
  });

  it('edits into a branch, switches back, and asks again', async () => {
    const page = await visit(browser, server.url);
    await say(page, 'Name a colour.');
    const first = await answered(page);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Edit message' }).fill('Name a planet.');
    await page.getByRole('button', { name: 'Send', exact: true }).first().click();
    await page.locator('.said', { hasText: 'Name a planet.' }).waitFor();
    await answered(page);
    await page.getByText('2 / 2').waitFor();
    await page.getByRole('button', { name: 'Previous branch' }).click();
    await page.locator('.said', { hasText: 'Name a colour.' }).waitFor();
    assert.equal(await answered(page), first);
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.branches').length === 2);
    await answered(page);
    await leave(page);
  });

  it('continues over a reload in the middle of an answer', async () => {
    const page = await visit(browser, server.url);
    await say(page, `${story} Begin with its name.`);
    await page.waitForFunction(() => (document.querySelector('article:not(.mine) .prose')?.textContent?.length ?? 0) > 20);
    await page.reload();
    await page.locator('article[data-status=running] .prose').waitFor();
    const before = (await page.locator('article:not(.mine) .prose').innerText()).length;
    await page.waitForFunction((n) => document.querySelector('article[data-status=running] .prose').innerText.length > n, before);
    await page.getByRole('button', { name: 'Stop' }).click();
    assert.ok((await answered(page)).length > before);
    await leave(page);
  });

  it('shows the same answer in two windows', async () => {
    const one = await visit(browser, server.url);
    await say(one, 'Say hello to both windows.');
    await one.locator('article:not(.mine)').waitFor();
    const two = await visit(browser, one.url());
    const [a, b] = await Promise.all([answered(one), answered(two)]);
    assert.equal(a, b);
    await say(two, 'And again.');
    await one.locator('.said', { hasText: 'And again.' }).waitFor();
    await answered(two);
    assert.equal(await answered(one), await answered(two));
    await leave(one);
    await leave(two);
  });

  it('does not send while a word is being composed', async () => {
    const page = await visit(browser, server.url);
    const box = page.getByRole('textbox', { name: 'Message', exact: true });
    await box.fill('にほん');
    await box.evaluate((element) => {
      element.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
      element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true }));
      element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }));
    });
    await drawn(page);
    assert.equal(await box.inputValue(), 'にほん');
    assert.equal(await page.locator('article').count(), 0);
    await leave(page);
  });

  it('attaches text, and refuses other files', async () => {
    const page = await visit(browser, server.url);
    const attach = async (name, buffer) => {
      const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Attach text files' }).click()]);
      await chooser.setFiles({ name, mimeType: 'application/octet-stream', buffer });
    };
    await attach('picture.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0xff]));
    await told(page, "can't be attached");
    await attach('main.go', Buffer.from('package main\n'));
    await page.getByText('main.go').waitFor();
    await say(page, 'What language is this?');
    await answered(page);
    await page.locator('article.mine summary', { hasText: 'main.go' }).waitFor();
    await leave(page);
  });

  it('finds words in chats', async () => {
    const page = await visit(browser, server.url);
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search all chats' }).fill('capital franc');
    const hit = page.getByRole('option').first();
    await hit.locator('mark').first().waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.said', { hasText: 'capital of France' }).first().waitFor();
    await leave(page);
  });

  it('goes to what is found when Enter came first', async () => {
    const page = await visit(browser, server.url);
    let find;
    const asked = new Promise((done) => (find = done));
    await page.route('**/app/search?*', async (route) => {
      await asked;
      await route.continue();
    });
    await page.keyboard.press('Control+k');
    const field = page.getByRole('combobox', { name: 'Search all chats' });
    await field.fill('capital franc');
    await field.press('Enter');
    assert.ok(await field.isVisible(), 'Enter chose what was listed before');
    find();
    await page.locator('.said', { hasText: 'capital of France' }).first().waitFor();
    await field.waitFor({ state: 'hidden' });
    await leave(page);
  });

  it('exports a chat and imports it', async () => {
    const page = await visit(browser, server.url);
    await page.getByRole('link', { name: 'What is the capital of France?' }).click();
    await page.locator('.said').waitFor();
    await page.getByRole('button', { name: 'Chat actions' }).click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Export as Markdown' }).click()]);
    assert.match(download.suggestedFilename(), /^What is the capital of France.*\.md$/);
    const path = await download.path();
    await page.getByRole('button', { name: 'More', exact: true }).click();
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('menuitem', { name: 'Import chats' }).click()]);
    await chooser.setFiles(path);
    await told(page, 'Imported 1 chat');
    await page.getByRole('link', { name: 'What is the capital of France?' }).nth(1).waitFor();
    await leave(page);
  });

  it('keeps the settings of a chat', async () => {
    const page = await visit(browser, server.url);
    await say(page, 'Hello.');
    await answered(page);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.getByLabel('System prompt').fill('You are a pirate.');
    await page.getByLabel('System prompt').blur();
    await page.getByLabel('Temperature', { exact: true }).fill('0.3');
    await page.getByLabel('Temperature', { exact: true }).blur();
    await page.getByRole('button', { name: 'Reset Temperature' }).waitFor(); // the last change is stored
    await page.reload();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    assert.equal(await page.getByLabel('System prompt').inputValue(), 'You are a pirate.');
    assert.equal(await page.getByLabel('Temperature', { exact: true }).inputValue(), '0.3');
    await leave(page);
  });
});

describe('the cache panel', () => {
  let server;
  before(async () => {
    server = await serve(newHome());
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  async function pick(page, side, name) {
    await page.getByRole('combobox', { name: side }).click();
    await page.getByRole('option', { name: new RegExp(`^${name}\\b(?!-)`) }).first().click();
    await page.waitForFunction(([s, n]) => [...document.querySelectorAll('.picker')].some((p) => p.textContent.includes(s) && p.querySelector('.now .name').textContent === n), [side, name]);
  }

  it('draws what the plan says', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    await page.locator('[role=radio][aria-checked=true]').press('ArrowRight'); // moves the focus without choosing a preset
    await page.waitForFunction(() => document.activeElement.matches('[role=radio][aria-checked=false]'));
    await page.locator('summary', { hasText: 'Advanced' }).click();
    await pick(page, 'Key type', 'q8_0');
    await pick(page, 'Value type', 'q4_0');
    await page.locator('figure[data-ready=true] canvas').waitFor();
    await page.getByText('Show as table').click();
    const rows = await page.locator('figure tbody tr').evaluateAll((list) =>
      list.map((row) => [Number(row.dataset.length), ...[...row.querySelectorAll('td')].map((cell) => Number(cell.dataset.bytes))]),
    );
    assert.ok(rows.length > 20);
    for (const [length, chosen, eight, sixteen] of [rows[3], rows[15], rows.at(-1)]) {
      for (const [k, v, shown] of [['q8_0', 'q4_0', chosen], ['q8_0', 'q8_0', eight], ['f16', 'f16', sixteen]]) {
        const plan = await (await fetch(`${server.url}/api/kv/plan?model=small&ctx=${length}&k=${k}&v=${v}`)).json();
        assert.equal(shown, plan.bytes, `${k}/${v} at ${length} tokens`);
      }
    }
    await leave(page);
  });

  it('changes what the loaded model has', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.locator('.strip').waitFor();
    assert.equal(await page.getByText('still uses its old settings').count(), 0, 'it was loaded with these');
    const active = async () => (await fetch(`${server.url}/api/kv?model=small`)).json();
    assert.equal((await active()).layers[0].k.active, 'q8_0');
    await pick(page, 'Key type', 'f16');
    await page.getByText('still uses its old settings').waitFor();
    await page.getByRole('button', { name: 'Reload now' }).click();
    await page.getByText('still uses its old settings').waitFor({ state: 'detached' });
    await page.locator('.strip button[aria-label*="keys f16"]').first().waitFor();
    const now = await active();
    assert.equal(now.layers[0].k.active, 'f16');
    await page.locator('summary', { hasText: 'All layers' }).click();
    assert.equal(await page.locator('tr[data-layer]').count(), now.layers.length);
    await leave(page);
  });

  it('measures the model, stops, and shows what is finished', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    await server.api('POST', '/app/models/small/load');
    await page.locator('.strip').waitFor(); // the model is loaded, so the page asks before it measures
    await page.getByRole('button', { name: 'Measure on this model' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Measure' }).click();
    await page.getByRole('progressbar', { name: 'Measuring small' }).waitFor();
    await page.waitForFunction(() => document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') > 0);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Cancelled. The next run will continue from this point.').waitFor();
    const pairs = (await server.api('GET', '/app/quality?model=small')).pairs.filter((p) => p.kld !== null);
    const rows = page.getByRole('region', { name: 'Measured on this model' }).locator('tbody tr');
    if (pairs.length > 0) await rows.nth(pairs.length - 1).waitFor(); // the page reloads the measurements
    assert.equal(await rows.count(), pairs.length);
    await leave(page);
  });

  it('shows the presets by figures first, and what is for experts last and closed', async () => {
    await server.api('POST', '/app/settings', { changes: { 'engine.kv_preset': 'quality', 'engine.cache_type_k': null, 'engine.cache_type_v': null } });
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    const cards = page.getByRole('radio');
    await cards.filter({ hasText: /Memory\s*[\d.]+ [KMG]iB/ }).nth(3).waitFor();
    for (const card of await cards.all()) assert.match(await card.innerText(), /Memory\s+[\d.]+ [KMG]iB\s+Max context\s+[\d.]+[KMk]?\s+Loss\s+\S/);
    assert.match(await cards.filter({ hasText: 'Recommended' }).innerText(), /^Quality/);
    const verdict = await page.getByText(/^Quality: the cache takes [\d.]+ \S+ for [\d,]+ tokens/).innerText();
    const memory = /Memory\s+(\S+ \S+)/.exec(await page.getByRole('radio', { checked: true }).innerText())[1];
    assert.ok(verdict.includes(`takes ${memory} for`), `${verdict} beside ${memory}`);
    assert.deepEqual(await page.locator('.settings .body h2').allInnerTexts(), ['KV cache', 'In use now', 'Memory and context', 'Measured on this model', 'Advanced']);
    assert.equal(await page.getByRole('combobox', { name: 'Key type' }).isVisible(), false);
    await leave(page);
  });

  it('applies the largest context that fits', async () => {
    const page = await visit(browser, `${server.url}/#/settings/kv`);
    const saved = page.waitForResponse((answer) => answer.request().method() === 'POST' && answer.url().endsWith('/app/settings'));
    await page.getByRole('button', { name: 'Use 8K' }).click();
    await page.waitForFunction(() => document.querySelector('.short').value === '8192');
    await saved;
    await page.reload();
    await page.locator('.short').waitFor();
    assert.equal(await page.locator('.short').inputValue(), '8192');
    await leave(page);
  });
});

describe('the hub', () => {
  it('is searched, and a download is paused, continues, and is checked', async () => {
    const hub = await playHub();
    const server = await serve(newHome(false), ['--hub-url', hub.url]);
    try {
      const page = await visit(browser, `${server.url}/#/models/hub`);
      await page.getByLabel('Search the hub').fill('nothing');
      await page.keyboard.press('Enter');
      await page.getByText('Nothing found').waitFor();
      await page.getByLabel('Search the hub').fill('godwit');
      await page.keyboard.press('Enter');
      await page.getByText('birds/godwit-GGUF', { exact: true }).waitFor();
      await page.getByText('fits', { exact: true }).waitFor();
      hub.slow = true;
      await page.getByRole('button', { name: /^Download godwit/ }).click();
      await page.getByText(/iB\/s/).waitFor();
      await page.getByRole('button', { name: /^Pause/ }).click();
      await page.getByText(/paused/).waitFor();
      hub.slow = false;
      await page.getByRole('button', { name: /^Resume/ }).click();
      await told(page, 'godwit-Q4_1 is ready');
      assert.ok(hub.ranges > 0, 'it began from the start again');
      await page.getByRole('button', { name: 'Chat', exact: true }).first().click();
      await page.getByRole('button', { name: 'Model: godwit-Q4_1' }).waitFor();
      await leave(page);
    } finally {
      await server.stop();
      server.remove();
      hub.close();
    }
  });
});
