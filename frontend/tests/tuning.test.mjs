// The settings of individual models, and what the library shows about a model.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { faultsOfAccess, launch, leave, say, answered, select, visit } from './browser.mjs';
import { ggufOf, newHome, serve } from './server.mjs';

let browser, server, page;

/** A row of the library. */
const row = (name) => page.getByRole('article', { name, exact: true });
const state = async () => (await server.api('GET', '/app/state')).models.find((m) => m.name === 'small');

before(async () => {
  const home = newHome(true, '', '', false, true);
  const template = "{% if tools %}{{ tools }}{% endif %}{% if enable_thinking %}<think>{% endif %}";
  writeFileSync(join(home, 'data', 'models', 'z-plain.gguf'), ggufOf({ 'general.architecture': 'llama', 'tokenizer.chat_template': template, 'tokenizer.ggml.fim_pre_token_id': 1 }));
  writeFileSync(join(home, 'data', 'models', 'z-tools-thinking-vision.gguf'), ggufOf({ 'general.architecture': 'llama', 'general.name': 'tools thinking vision infill' }));
  writeFileSync(join(home, 'data', 'models', 'z-vectors.gguf'), ggufOf({ 'general.architecture': 'bert' }));
  browser = await launch();
  server = await serve(home);
  page = await visit(browser, server.url);
});

after(async () => {
  if (page) await leave(page);
  await browser?.close();
  await server?.stop();
  server?.remove();
});

test('offers at the first load what the maker recommends, once', async () => {
  await say(page, 'Say one word.');
  await answered(page);
  const offer = page.getByRole('group', { name: 'Recommended settings' });
  await offer.getByText('temperature 0.2 and top P 0.9').waitFor();
  assert.deepEqual(await faultsOfAccess(page), []);
  await offer.getByRole('button', { name: 'Use these', exact: true }).press('Enter');
  await offer.waitFor({ state: 'detached' });
  const { settings } = await state();
  assert.deepEqual(settings, { sampling: { temperature: 0.2, top_p: 0.9 }, answered: true });
  // If a chat has no value, the model's value is shown. A chat's own value
  // takes precedence.
  await page.getByRole('button', { name: 'Chat settings', exact: true }).click();
  assert.equal(await page.getByLabel('Temperature', { exact: true }).getAttribute('placeholder'), '0.2');
  await page.getByLabel('Close', { exact: true }).click();
  await page.reload();
  await page.getByRole('textbox', { name: 'Message', exact: true }).waitFor();
  assert.equal(await offer.count(), 0);
});

test('a model has settings of its own on its row', async () => {
  await page.goto(`${server.url}/#/models`);
  await row('small').getByRole('button', { name: 'Settings for small' }).click();
  const own = page.getByRole('region', { name: 'Settings for small' });
  await own.getByLabel('Context length').fill('512');
  await own.getByLabel('Context length').press('Enter');
  await select(own.getByLabel('KV preset'), 'Small');
  await own.getByRole('button', { name: 'Reload to apply' }).click();
  await row('small').getByText(/512 context|Loaded.*512/i).waitFor();
  const now = await state();
  assert.deepEqual([now.loaded_context, now.settings.context, now.settings.preset], [512, 512, 'small']);
  assert.deepEqual(await faultsOfAccess(page), []);
  await own.getByLabel('Chat template').fill('/no/such/template');
  await own.getByLabel('Chat template').press('Tab');
  await own.getByText(/no such|no file/i).waitFor(); // the error is at the field
  assert.equal((await state()).settings.chat_template, undefined);
  await own.getByRole('button', { name: 'Reset all' }).click();
  await own.getByRole('button', { name: 'Reset all' }).waitFor({ state: 'detached' });
  assert.deepEqual((await state()).settings, { answered: true });
  // The recommendation is offered again, because the model's values now differ from it.
  await own.getByRole('group', { name: 'Recommended settings' }).waitFor();
});

test('a row says what the file can do, not what its name says', async () => {
  await page.goto(`${server.url}/#/models`);
  const tags = (name) => row(name).locator('.can').allInnerTexts();
  assert.deepEqual(await tags('z-plain'), ['tools', 'reasoning', 'infill']);
  assert.deepEqual(await tags('z-tools-thinking-vision'), []);
  assert.deepEqual(await tags('z-vectors'), ['embedding']);
  assert.match(await row('small').getByRole('img').first().getAttribute('aria-label'), /^Fits in memory: needs about .+, and this computer has .+$/);
  await page.goto(`${server.url}/#/`);
  await page.getByRole('button', { name: /^Model: / }).click();
  const option = page.getByRole('option', { name: /z-plain/ });
  assert.deepEqual(await option.locator('.can').allInnerTexts(), ['tools', 'reasoning', 'infill']);
  await page.keyboard.press('Escape');
});
