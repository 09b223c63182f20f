// Private chats, in a real browser on the real server: how they are marked, and that
// nothing of them is stored anywhere.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, launch, leave, say, visit } from './browser.mjs';
import { newHome, serve } from './server.mjs';

const [hidden, shown] = ['Quixotrezabel', 'Mandrelvostok'];

let browser;
let server;

before(async () => {
  browser = await launch();
  server = await serve(newHome(true, 'predict = 20\n', '', true));
});

after(async () => {
  await browser?.close();
  await server?.stop();
  server?.remove();
});

/** The files of the home that contain a word. */
const filesWith = (word) =>
  readdirSync(server.home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(word));

/** What the browser has stored for the page. */
const stored = (page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));

const text = (word) => `The code word is ${word}. ${'Two birds sit on a wall. '.repeat(40)}What is the code word?`;
const box = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

describe('a private chat', () => {
  it('is marked, survives a reload, is stored nowhere and goes at once', async () => {
    const page = await visit(browser, server.url);
    await box(page).fill(`A draft with ${hidden}`);
    await page.waitForFunction((word) => JSON.stringify({ ...localStorage }).includes(word), hidden); // the draft of a chat that is not private is stored
    await page.getByRole('switch', { name: 'Private chat' }).click();
    await page.getByText("This chat isn't saved.").waitFor();
    await page.waitForFunction((word) => !JSON.stringify({ ...localStorage }).includes(word), hidden);
    assert.equal(await box(page).inputValue(), `A draft with ${hidden}`);

    await say(page, text(hidden));
    await answered(page);
    await page.locator('header').getByText('Private chat').waitFor();
    assert.equal(await page.title(), 'Private chat · Godwit');
    const region = page.getByRole('region', { name: 'Private' });
    await region.getByRole('link').waitFor();
    await page.reload();
    await answered(page);
    await region.getByRole('link').waitFor();
    await box(page).fill(`Another draft with ${hidden}`);
    await page.locator('article.mine').hover();
    await page.locator('article.mine').getByRole('button', { name: 'Edit' }).click();
    await page.locator('article.mine textarea, form textarea').first().pressSequentially(hidden);
    await drawn(page);
    await new Promise((done) => setTimeout(done, 1000)); // drafts are stored after a moment
    assert.ok(!(await stored(page)).includes(hidden), await stored(page));

    await page.getByRole('button', { name: 'Chat actions' }).click();
    const items = await page.getByRole('menuitem').allInnerTexts();
    assert.deepEqual(items.map((item) => item.trim()), ['Rename', 'Export as Markdown', 'Export as JSON', 'Delete now']);
    assert.equal((await server.api('GET', '/api/prefixes')).memory_bytes, 0);
    assert.deepEqual(filesWith(hidden), []);
    assert.ok(!server.log().includes(hidden));

    const id = new URL(page.url()).hash.split('/').pop();
    await page.getByRole('menuitem', { name: 'Delete now' }).click();
    await region.waitFor({ state: 'detached' });
    await page.getByText('What can I help with?').waitFor();
    await assert.rejects(server.api('GET', `/app/chats/${id}`), /404/);
    assert.equal(await page.getByRole('switch', { name: 'Private chat' }).getAttribute('aria-checked'), 'false');

    await say(page, text(shown)); // the same checks find the traces of a chat that is not private
    await answered(page);
    assert.ok((await server.api('GET', '/api/prefixes')).memory_bytes > 0);
    assert.notDeepEqual(filesWith(shown), []);
    await leave(page);
  });
});
