// A user with an empty home folder, from the first screen to an answer, with a
// simulated hub.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, faultsOfAccess, launch, leave, visit } from './browser.mjs';
import { newHome, playHub, serve } from './server.mjs';

let browser;
/** Limit of the first load, in bytes after gzip. */
const firstLoad = 400_000;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Checks a view in both themes and widths for accessibility and sideways scrolling. */
export async function looks(page, name) {
  for (const [scheme, width] of [['light', 1280], ['dark', 1280], ['dark', 420], ['light', 420]]) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 820 });
    await drawn(page);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${width}-${scheme}.png` });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} at ${width}`);
    if (width === 1280) assert.deepEqual(await faultsOfAccess(page), [], `${name}, ${scheme}`);
  }
  await page.setViewportSize({ width: 1280, height: 820 });
}

describe('a first start without a model', () => {
  let server, hub;
  before(async () => {
    hub = await playHub();
    server = await serve(newHome(false, 'predict = 20\n'), ['--hub-url', hub.url]);
  });
  after(async () => {
    await server?.stop();
    server?.remove();
    hub?.close();
  });

  it('loads at most 400 KB, compressed', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    const bodies = [];
    page.on('response', (answer) => {
      if (!new URL(answer.url()).pathname.startsWith('/app/')) bodies.push(answer.body().then((body) => [new URL(answer.url()).pathname, gzipSync(body).length]));
    });
    await page.goto(server.url);
    await page.locator('textarea').waitFor();
    await page.getByRole('list', { name: 'Recommended models' }).waitFor();
    for (let n = 0; n < bodies.length; await page.waitForTimeout(1000)) n = bodies.length; // until no response arrives for a second
    const files = await Promise.all(bodies);
    const sum = files.reduce((n, [, size]) => n + size, 0);
    assert.ok(files.length > 3 && sum > 40_000, `only ${files}`);
    assert.ok(sum <= firstLoad, `${sum} bytes: ${files.sort((a, b) => b[1] - a[1]).slice(0, 5).join('; ')}`);
    console.log(`# first load: ${files.length} files, ${sum} bytes after gzip`);
    await context.close();
  });

  it('goes from what this computer can run to an answer on one screen', async () => {
    const page = await visit(browser, server.url);
    await page.getByText('Choose a model to get started').waitFor();
    await page.getByText(/This computer has [\d.]+ [GT]iB of memory, \d+ processor threads?/).waitFor();
    const cards = page.getByRole('list', { name: 'Recommended models' }).getByRole('listitem');
    assert.equal(await cards.count(), 3);
    for (const card of await cards.all()) assert.match(await card.innerText(), /Download\s+[\d.]+ GiB\s+Memory\s+\S[^\n]*\s+Context\s+[\d.]+[KMk] tokens\s+Speed\s+about [\d.]+ tokens\/s/);
    await page.getByRole('group', { name: 'SmolLM2 135M' }).getByText('For trying the app: fast, but often wrong.').waitFor();
    assert.equal(hub.asked, 0, 'the hub is not asked before a person chooses');
    await looks(page, 'first');

    const best = cards.filter({ hasText: 'Recommended' });
    hub.slow = true;
    await best.getByRole('button', { name: /^Download/ }).click();
    await best.getByText(/Downloading \d+% of 93.8 MiB/).waitFor();
    await page.getByPlaceholder('Write your first message').waitFor();
    await page.keyboard.type('What is a godwit?'); // the message box has the focus
    await page.keyboard.press('Enter');
    await page.getByText('Your message will be sent when the model is ready.').waitFor();
    await looks(page, 'first-coming');
    hub.slow = false;
    await page.locator('.said', { hasText: 'What is a godwit?' }).waitFor();
    assert.notEqual(await answered(page), '');
    await looks(page, 'first-answer');
    await leave(page);
  });
});
