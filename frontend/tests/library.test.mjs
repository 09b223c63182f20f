// Tests model files and the cache, and what the page shows if something is
// wrong, in a real browser on the real server.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, launch, leave, say, select, told, visit } from './browser.mjs';
import { ggufOf, newHome, playHub, serve } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Runs a test on a separate server. */
async function on(home, args, work) {
  const server = await serve(home, args);
  try {
    await work(server);
  } finally {
    await server.stop();
    server.remove();
  }
}

describe('the library', () => {
  it('shows what a model is, with its template and the hash of it', () =>
    on(newHome(), [], async (server) => {
      const { template } = await server.api('GET', '/app/models/small');
      const page = await visit(browser, `${server.url}/#/models`);
      const card = page.getByRole('article', { name: 'small' });
      for (const text of ['llama', 'Q4_1', /135M parameters/, /8K context/]) await card.getByText(text).first().waitFor();
      await card.getByRole('button', { name: 'Details for small' }).click();
      const hash = createHash('sha256').update(template).digest('hex');
      await card.getByText(hash.slice(0, 16)).click();
      assert.equal(await card.locator('pre').textContent(), template);
      await card.getByText('apache-2.0').waitFor();
      await leave(page);
    }));

  it('takes the files of a split model as one, and deletes what is its own after asking', () => {
    const home = newHome(false);
    const folder = join(home, 'data', 'models');
    for (const i of [0, 1]) writeFileSync(join(folder, `tiny-0000${i + 1}-of-00002.gguf`), ggufOf({ 'general.architecture': 'llama', 'split.no': i, 'split.count': 2, 'split.tensors.count': 0 }));
    return on(home, [], async (server) => {
      const page = await visit(browser, `${server.url}/#/models`);
      const card = page.getByRole('article', { name: 'tiny' });
      await card.getByRole('button', { name: 'Details for tiny' }).click();
      await card.getByText('Files (2)').waitFor();
      await card.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByText('The 2 files').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      assert.ok(existsSync(join(folder, 'tiny-00001-of-00002.gguf')));
      await card.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await card.waitFor({ state: 'detached' });
      assert.deepEqual(readdirSync(folder).filter((name) => name.endsWith('.gguf')), []);
      await leave(page);
    });
  });

  it('says why a model does not load, and what to do', () => {
    const home = newHome();
    return on(home, [], async (server) => {
      await server.api('POST', '/app/settings', { changes: { 'engine.backend': 'cuda' } });
      const page = await visit(browser, `${server.url}/#/models`);
      const card = page.getByRole('article', { name: 'small' });
      await card.getByRole('button', { name: 'Load' }).click();
      await card.getByRole('alert').waitFor();
      assert.match(await card.getByRole('alert').innerText(), /cuda/i);
      await card.getByText('Failed to load').waitFor();
      await leave(page);
    });
  });
});

describe('the hub', () => {
  it('continues with a download after the program was ended', async () => {
    const hub = await playHub();
    const home = newHome(false);
    hub.slow = true;
    let server = await serve(home, ['--hub-url', hub.url]);
    try {
      await server.api('POST', '/app/downloads', { ref: 'birds/godwit-GGUF:Q4_1' });
      const page = await visit(browser, `${server.url}/#/models`);
      await page.getByText(/iB\/s/).waitFor();
      await leave(page);
      await server.stop();
      hub.slow = false;
      server = await serve(home, ['--hub-url', hub.url]);
      const next = await visit(browser, `${server.url}/#/models`);
      await next.getByText(/paused/).waitFor();
      await next.getByRole('button', { name: /^Resume/ }).click();
      await told(next, 'godwit-Q4_1 is ready');
      assert.ok(hub.ranges > 0, 'it began from the start again');
      await leave(next);
    } finally {
      await server.stop();
      server.remove();
      hub.close();
    }
  });

  it('says what the hub refuses', async () => {
    const hub = await playHub();
    await on(newHome(false), ['--hub-url', hub.url], async (server) => {
      const page = await visit(browser, `${server.url}/#/models/hub`);
      hub.refuse = 401;
      await page.getByLabel('Search the hub').fill('godwit');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').getByText("Couldn't search the hub").waitFor();
      hub.refuse = 0;
      await page.keyboard.press('Enter');
      await page.getByText('birds/godwit-GGUF', { exact: true }).waitFor();
      hub.spoil = true;
      await page.getByRole('button', { name: /^Download godwit/ }).click();
      await page.getByRole('alert').filter({ hasText: /SHA-256/ }).waitFor();
      await leave(page);
    });
    hub.close();
  });
});

describe('the cache panel', () => {
  it('lists the types by group with bits and bytes, and says what a loaded model skips', () =>
    on(newHome(true, 'predict = 40\n'), [], async (server) => {
      const chat = await visit(browser, server.url);
      await say(chat, `Repeat: ${'the godwit flies over the sea. '.repeat(20)}`);
      await answered(chat);
      await leave(chat);
      const page = await visit(browser, `${server.url}/#/settings/kv`);
      const skipped = page.locator('.facts div', { hasText: 'Skipped by Sparse V' }).locator('strong');
      await skipped.waitFor();
      assert.match(await skipped.innerText(), /^[\d.,]+%$/);
      await page.locator('summary', { hasText: 'Advanced' }).click();
      await page.getByRole('combobox', { name: 'Value type' }).click();
      const list = page.getByRole('listbox', { name: 'Value type' });
      for (const name of ['Safe', 'Balanced', 'Small', 'Experimental']) await list.getByRole('group', { name }).waitFor();
      const { types } = await server.api('GET', '/app/kv/types?model=small');
      assert.equal(await list.getByRole('option').count(), types.length);
      for (const option of await list.getByRole('option').all()) assert.match(await option.innerText(), /[\d.]+ bits\s+[\d.]+ (?:B|KiB)/);
      await page.keyboard.press('Escape');
      await page.locator('.strip button').nth(3).click();
      const layer = page.getByRole('status').filter({ hasText: 'Layer 3' }).getByText(/Sparse V skipped/);
      await layer.waitFor();
      const again = page.waitForResponse((answer) => answer.url().includes('/app/kv/active'));
      await server.api('POST', '/app/library/refresh', {});
      await (await again).finished();
      await drawn(page);
      assert.ok(await layer.isVisible(), 'the chosen layer is lost when the models are announced again');
      await select(page.getByRole('combobox', { name: 'Layer policy' }), /^7 · /);
      await page.getByText('still uses its old settings').waitFor();
      await leave(page);
    }));
});

describe('damage', () => {
  it('of the chats is set aside and told', () => {
    const home = newHome(true, 'predict = 40\n');
    writeFileSync(join(home, 'data', 'chats.db'), 'this is not a database'.repeat(500));
    return on(home, [], async (server) => {
      const page = await visit(browser, server.url);
      await page.getByRole('alert').getByText('The chats could not be read').waitFor();
      const aside = readdirSync(join(home, 'data')).find((name) => /^chats\.db.+/.test(name) && readFileSync(join(home, 'data', name)).includes('this is not a database'));
      assert.ok(aside, 'the file is gone');
      await say(page, 'Are you there?');
      await answered(page);
      await leave(page);
    });
  });

  it('of the settings is shown', () => {
    const home = newHome();
    writeFileSync(join(home, 'config.toml'), '[engine]\nctx_sise = 4096\n');
    return on(home, [], async (server) => {
      const page = await visit(browser, server.url);
      await page.getByRole('alert').getByText(/ctx_sise/).waitFor();
      await leave(page);
    });
  });
});
