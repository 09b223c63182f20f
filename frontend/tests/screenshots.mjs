// Takes the pictures of docs/ from the real page on the real server:
// GODWIT_BIN=../build/bin/godwit node tests/screenshots.mjs
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { answered, launch, say, visit } from './browser.mjs';
import { modelFile, newHome, serve } from './server.mjs';

const out = process.argv[2] ?? '../docs/images';
mkdirSync(out, { recursive: true });
const browser = await launch();
const home = newHome(false);
// Links the models under their own names, including the second demo model if it
// exists.
for (const file of [modelFile(), join(dirname(modelFile()), 'gemma-3-270m-Q4_K_M.gguf')]) {
  if (existsSync(file)) symlinkSync(file, join(home, 'data', 'models', basename(file)));
}
const server = await serve(home);
try {
  await server.api('POST', '/app/settings', { changes: { 'engine.kv_preset': 'quality' } });
  // Wait for the load, because some cache types first measure the model.
  const [{ name }] = (await server.api('GET', '/app/state')).models;
  await server.api('POST', `/app/models/${name}/load`);
  while (!(await server.api('GET', '/app/state')).models.some((m) => m.state === 'loaded')) await new Promise((next) => setTimeout(next, 500));
  const first = await visit(browser, server.url);
  await say(first, 'Write a Go hello world program, then a short list of three fruits.');
  await answered(first);
  const chat = new URL(first.url()).hash;
  await first.context().close();
  for (const colorScheme of ['light', 'dark']) {
    const page = await visit(browser, server.url, { colorScheme, reducedMotion: 'reduce', viewport: { width: 1280, height: 820 } });
    for (const [name, hash, ready] of [
      ['chat', chat, 'figure.code'],
      ['library', '#/models', 'article.card'],
      ['kv', '#/settings/kv', 'figure[data-ready=true] canvas'],
    ]) {
      await page.goto(`${server.url}/${hash}`);
      await page.locator(ready).first().waitFor();
      await page.waitForTimeout(600);
      await page.screenshot({ path: `${out}/${name}-${colorScheme}.png` });
    }
    const layers = page.locator('summary', { hasText: 'All layers' });
    await layers.click();
    await layers.evaluate((summary) => summary.scrollIntoView({ block: 'center' }));
    await page.waitForTimeout(300);
    await page.screenshot({ path: `${out}/layers-${colorScheme}.png` });
    await page.context().close();
  }
} finally {
  await browser.close();
  await server.stop();
  server.remove();
}
