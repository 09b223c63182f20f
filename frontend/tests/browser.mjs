// Runs the tests' browser, which is Debian's Chromium, with playwright-core.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export async function launch() {
  const path = process.env.CHROMIUM ?? '/usr/bin/chromium';
  if (!existsSync(path)) throw new Error(`no browser at ${path}; run: apt-get install -y chromium`);
  return chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** Longest wait for anything, in milliseconds. On a busy machine, things take much longer than usual. */
const patience = 150_000;

/** Opens a page. Any error on the page, and any request to another origin, makes leave fail. */
export async function visit(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, colorScheme: 'light', bypassCSP: false, ...options });
  context.setDefaultTimeout(patience);
  await context.addInitScript(noteToasts);
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', (err) => page.faults.push(`error: ${err.message}`));
  page.on('dialog', (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const to = request.url();
    if (/^https?:/.test(to) && new URL(to).origin !== new URL(url).origin) page.faults.push(`request to ${to}`);
  });
  await page.goto(url);
  await page.waitForSelector('main');
  await page.getByText('Starting', { exact: true }).waitFor({ state: 'detached' }); // the page ignores keys until then
  return page;
}

/** Records a page's messages about results and errors, because the messages may disappear. */
function noteToasts() {
  globalThis.told = [];
  new MutationObserver((records) => {
    const seen = '.toast, .trouble';
    for (const node of records.flatMap((record) => [...record.addedNodes])) {
      if (!(node instanceof Element)) continue;
      for (const part of [...(node.matches(seen) ? [node] : []), ...node.querySelectorAll(seen)]) globalThis.told.push(part.textContent);
    }
  }).observe(document, { childList: true, subtree: true });
}

/** Waits until a page has shown a message, which may be gone by now. */
export const told = (page, words) => page.waitForFunction((words) => globalThis.told.some((text) => text.includes(words)), words);

/** Chooses an option of a field by its name. */
export async function select(field, name) {
  await field.click();
  await field.page().getByRole('option', { name, exact: true }).click();
}

/** Closes a page and reports what went wrong on it. */
export async function leave(page) {
  await page.context().close();
  assert.deepEqual(page.faults, []);
}

/** Writes a message and presses Enter. */
export async function write(page, text) {
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
  await page.keyboard.press('Enter');
}

/** Sends a message and waits until it is shown. Its answer appears at the same time. */
export async function say(page, text) {
  await write(page, text);
  await page.locator('.said', { hasText: text }).last().waitFor();
}

/** Delays all requests to a path until the returned function is called. */
export async function held(page, path) {
  let letGo;
  const gone = new Promise((resolve) => (letGo = resolve));
  await page.route(path, (route) => gone.then(() => route.continue()));
  return letGo;
}

/** Waits until the page has drawn its current data. */
export const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));

/** Waits until the newest answer is finished and returns its text. */
export async function answered(page) {
  const last = page.locator('article:not(.mine)').last();
  await last.waitFor();
  await page.waitForFunction(() => {
    const all = document.querySelectorAll('article:not(.mine)');
    return all.length > 0 && all[all.length - 1].dataset.status !== 'running';
  });
  return last.locator('.prose').last().innerText();
}

/** Returns the violations that axe reports. */
export async function faultsOfAccess(page) {
  await page.evaluate(axe); // bypasses the page's content security policy, which is not tested here
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')} ${n.failureSummary.replace(/\s+/g, ' ')}`));
}
