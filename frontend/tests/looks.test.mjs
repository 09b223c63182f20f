// Tests how the page handles hostile text from a model, and how the page looks, in a
// real browser on the real server.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, faultsOfAccess, held, launch, leave, say, select, told, visit } from './browser.mjs';
import { conversation, lastingPort, manyMessages, newHome, serve } from './server.mjs';

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

const hostile = [
  '<script>document.title = "owned"; alert(1)</script>',
  '<img src="https://evil.example/seen.png" onerror="alert(1)">',
  '![seen](https://evil.example/seen.png)',
  '[click](javascript:alert(1)) and [data](data:text/html,<script>alert(1)</script>)',
  '<iframe src="https://evil.example"></iframe><style>body{display:none}</style>',
  '```html\n<script>alert(1)</script>\n```',
  '```"><img src=x onerror=alert(1)>\ntext\n```',
  '$\\href{javascript:alert(1)}{x}$ and $\\includegraphics{https://evil.example/x.png}$',
  '| <svg onload=alert(1)> |\n|---|\n| <math><mi//xlink:href="javascript:alert(1)">x |',
  '<form action="https://evil.example"><button>go</button></form>',
].join('\n\n');

describe('what a model may write', () => {
  let server;
  before(async () => {
    server = await serve(newHome());
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  it('is inert, and shown', async () => {
    const { chats } = await server.api('POST', '/app/import', conversation('Hostile', ['Hello.', hostile]));
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
    await page.locator('article:not(.mine) .prose').waitFor();
    await page.locator('.katex').first().waitFor();
    await drawn(page);
    assert.deepEqual(
      await page.locator('.prose').evaluateAll((roots) =>
        roots.flatMap((root) => [...root.querySelectorAll('script,iframe,style,img,object,embed,form,base,link,meta')].map((e) => e.outerHTML)),
      ),
      [],
    );
    assert.deepEqual(
      await page.locator('.prose *').evaluateAll((all) =>
        all.flatMap((e) => [...e.attributes].filter((a) => a.name.startsWith('on') || (/href$/.test(a.name) && !/^(https?:|mailto:)/.test(a.value))).map((a) => `${a.name}=${a.value}`)),
      ),
      [],
    );
    assert.match(await page.title(), /^Hostile/);
    assert.ok((await page.locator('.prose').innerText()).includes('<script>'));
    await leave(page); // leave also fails if there was a request to evil.example or a dialog
  });

  it('opens 5,000 messages with at most 200 in the document', async () => {
    const { chats } = await server.api('POST', '/app/import', conversation('Long', manyMessages()));
    const page = await visit(browser, server.url);
    await page.getByRole('link', { name: 'Long' }).waitFor();
    await page.getByRole('link', { name: 'Long' }).click();
    await page.getByText('Message 4999.').waitFor();
    const count = () => page.locator('article.message').count();
    assert.ok((await count()) <= 200, `${await count()} messages in the document`);
    const region = page.getByRole('region', { name: 'Messages' });
    for (let i = 0; i < 12; i++) {
      await region.evaluate((box) => (box.scrollTop -= 2500));
      await drawn(page);
      assert.ok((await count()) <= 200);
    }
    await region.evaluate((box) => (box.scrollTop = 0));
    await page.getByText('Message 0.', { exact: false }).first().waitFor();
    assert.ok((await count()) <= 200);
    await region.evaluate((box) => (box.scrollTop = box.scrollHeight / 2));
    await page.waitForFunction(() => {
      const n = Number(/Message (\d+)/.exec(document.querySelector('article.message')?.textContent ?? '')?.[1]);
      return n > 1000 && n < 4000;
    });
    await page.getByRole('button', { name: 'Jump to latest' }).click();
    await page.getByText('Message 4999.').waitFor();
    await page.goto(`${server.url}/#/chat/${chats[0].id}/${(await server.api('GET', `/app/chats/${chats[0].id}/messages?before=101&limit=1`)).messages[0].id}`);
    await page.locator('article.marked', { hasText: 'Message 100.' }).waitFor();
    await drawn(page); // the marked message stays visible
    const at = await page.locator('article.marked', { hasText: 'Message 100.' }).boundingBox();
    assert.ok(at && at.y >= 0 && at.y + at.height <= 820, JSON.stringify(at));
    await leave(page);
  });

  it('goes to the message of an address, and where the person scrolls while others come', async () => {
    const { chats } = await server.api('POST', '/app/import', conversation('Far', manyMessages()));
    const path = `/app/chats/${chats[0].id}/messages`;
    const [wanted] = (await server.api('GET', `${path}?before=3001&limit=1`)).messages;
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}/${wanted.id}`);
    const region = page.getByRole('region', { name: 'Messages' });
    await page.locator('article.marked', { hasText: 'Message 3000.' }).waitFor();
    await drawn(page);
    const at = await page.locator('article.marked').boundingBox();
    assert.ok(at && at.y >= 0 && at.y + at.height <= 820, JSON.stringify(at));
    const letGo = await held(page, `**${path}?*`);
    const asked = page.waitForRequest(`**${path}?*`);
    await region.evaluate((box) => (box.scrollTop = box.querySelector('.list').offsetTop + 300));
    await asked; // the request for earlier messages
    await region.evaluate((box) => (box.scrollTop = 0));
    await drawn(page);
    letGo();
    await page.getByText('Message 0.').waitFor();
    assert.equal(await region.evaluate((box) => box.scrollTop), 0);
    await leave(page);
  });

  it('reads from right to left where its script does', async () => {
    const { chats } = await server.api('POST', '/app/import', conversation('Arabic', ['مرحبا', 'أهلا وسهلا بك']));
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
    await page.locator('.prose .block').waitFor();
    for (const part of ['.said', '.prose .block']) assert.equal(await page.locator(part).evaluate((e) => getComputedStyle(e).direction), 'rtl', part);
    await leave(page);
  });
});

describe('how it looks', () => {
  let server;
  let chat;
  before(async () => {
    server = await serve(newHome(), [], await lastingPort());
    const answer = '# Birds\n\nA *list*:\n\n- [x] one\n- two\n\n```go\nfunc main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$x^2$$\n\n> quoted [link](https://example.com)';
    chat = (await server.api('POST', '/app/import', conversation('Birds', ['Tell me about birds.', answer]))).chats[0].id;
    await server.api('POST', '/app/models/small/load');
  });
  after(async () => {
    await server?.stop();
    server?.remove();
  });

  /** Views, each with an element that shows when the view is ready. */
  const views = {
    '#/chat': (page) => page.getByText('What can I help with?'),
    '#/chat/1': (page) => page.locator('article .hljs-keyword'),
    '#/models': (page) => page.getByRole('region', { name: 'Library' }).getByRole('article'),
    '#/models/hub': (page) => page.getByRole('heading', { name: 'Find a model' }),
    '#/settings/kv': (page) => page.locator('figure[data-ready=true] canvas'),
    '#/settings/about': (page) => page.getByText('Copy diagnostics'),
  };
  for (const name of ['General', 'Runtime', 'Sampling', 'Server', 'Library']) views[`#/settings/${name.toLowerCase()}`] = (page) => page.getByRole('region', { name }).locator('.setting');

  async function go(page, view) {
    await page.goto(`${server.url}/${view.replace('/1', `/${chat}`)}`);
    await views[view](page).first().waitFor();
    await drawn(page);
  }

  for (const scheme of ['light', 'dark']) {
    it(`has no faults of access, ${scheme}`, async () => {
      const page = await visit(browser, `${server.url}/#/chat`, { colorScheme: scheme, reducedMotion: 'reduce' });
      const shown = {
        '#/chat/1': ['Chat settings', page.getByRole('heading', { name: 'Chat settings' })],
        '#/models': [/^Details for/, page.getByText('Chat template', { exact: true })],
        '#/settings/kv': ['Key type', page.getByRole('listbox')],
      };
      for (const view of Object.keys(views)) {
        await go(page, view);
        if (view === '#/settings/kv') await page.locator('summary', { hasText: 'Advanced' }).click();
        if (shown[view]) {
          await page.getByRole(view === '#/settings/kv' ? 'combobox' : 'button', { name: shown[view][0] }).click();
          await shown[view][1].waitFor();
          await drawn(page);
        }
        assert.deepEqual(await faultsOfAccess(page), [], view);
      }
      await page.goto(`${server.url}/#/chat/${chat}`);
      await page.keyboard.press('Control+k');
      await page.getByRole('option').first().waitFor();
      assert.deepEqual(await faultsOfAccess(page), [], 'search');
      await leave(page);
    });
  }

  it('has none with or without a loaded model', async () => {
    const page = await visit(browser, `${server.url}/#/chat`);
    for (const [models, name] of [[[{ state: 'loading', progress: 0.34 }], 'Model: small 34%'], [[], 'No model']]) {
      await page.route('**/app/state', async (route) => {
        const answer = await route.fetch();
        const state = await answer.json();
        await route.fulfill({ response: answer, json: { ...state, models: models.map((m) => ({ ...state.models[0], ...m })) } });
      });
      await page.reload();
      await page.getByRole('button', { name, exact: true }).waitFor();
      assert.deepEqual(await faultsOfAccess(page), [], name);
      await page.unroute('**/app/state');
    }
    await leave(page);
  });

  it('writes nothing below 13 px, and chats in 16', async () => {
    const page = await visit(browser, server.url);
    for (const view of Object.keys(views)) {
      await go(page, view);
      const small = await page.evaluate(() => {
        const list = [];
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
          const { parentElement: e, data } = walk.currentNode;
          if (!data.trim() || !e.checkVisibility() || e.closest('.katex, .hidden-text, script, style')) continue;
          if (Number.parseFloat(getComputedStyle(e).fontSize) < 12.9) list.push(`${getComputedStyle(e).fontSize} ${e.className}: ${data.trim().slice(0, 40)}`);
        }
        return list;
      });
      assert.deepEqual(small, [], view);
    }
    await go(page, '#/chat/1');
    assert.equal(await page.locator('.said').first().evaluate((e) => getComputedStyle(e).fontSize), '16px');
    await page.locator('article.mine').first().hover();
    await page.locator('article.mine').first().getByRole('button', { name: 'Edit' }).click();
    assert.equal(await page.getByRole('textbox', { name: 'Edit message' }).evaluate((e) => getComputedStyle(e).fontSize), '16px');
    await page.keyboard.press('Escape');
    await leave(page);
  });

  it('is dark when set to dark, whatever the system', async () => {
    const page = await visit(browser, `${server.url}/#/settings/general`);
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await select(page.getByRole('combobox', { name: 'Theme' }), 'Dark');
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    assert.notEqual(await ground(), light);
    await page.reload();
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    await select(page.getByRole('combobox', { name: 'Theme' }), 'Match system');
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
    await leave(page);
  });

  it('fits a narrow window', async () => {
    const page = await visit(browser, server.url, { viewport: { width: 380, height: 700 } });
    for (const view of Object.keys(views)) {
      await go(page, view);
      const wide = await page.evaluate(() => Math.max(...[document.documentElement, ...document.querySelectorAll('[role=region].scrolls:not(.scroll)')].map((e) => e.scrollWidth - e.clientWidth)));
      assert.ok(wide <= 0, `${view} is ${wide} px too wide`);
    }
    await page.getByRole('button', { name: 'Show sidebar' }).click();
    await page.getByRole('link', { name: 'Birds' }).click();
    await page.locator('.said').waitFor();
    await page.getByRole('navigation', { name: 'Chats' }).waitFor({ state: 'detached' });
    await leave(page);
  });

  it('comes back when the server does', async () => {
    const page = await visit(browser, `${server.url}/#/chat/${chat}`);
    await page.locator('.said').waitFor();
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Half a mess');
    const port = Number(new URL(server.url).port);
    const home = server.home;
    await server.stop();
    await page.getByText("Can't reach Godwit").waitFor();
    server = await serve(home, [], port);
    await page.getByText("Can't reach Godwit").waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('textbox', { name: 'Message', exact: true }).inputValue(), 'Half a mess');
    await say(page, 'Are you there?');
    assert.ok((await answered(page)).length > 0);
    await leave(page);
  });
});
