// The page's own controls, in a real browser on the real server: the model picker,
// fields, chips, the slash menu, titles and presets.
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, faultsOfAccess, launch, leave, say, visit } from './browser.mjs';
import { modelFile, newHome, serve } from './server.mjs';

let browser, server;
before(async () => {
  browser = await launch();
  const home = newHome(true, 'predict = 12\n', '', true);
  for (const name of ['heron-7b.gguf', 'owl-chat.gguf']) symlinkSync(modelFile(), join(home, 'data', 'models', name));
  server = await serve(home);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  server?.remove();
});

const box = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

describe('the model picker', () => {
  it('is searched by keys, and shows size, context and state', async () => {
    const page = await visit(browser, server.url);
    const button = page.getByRole('button', { name: /^Model: / });
    await button.click();
    const field = page.getByRole('combobox', { name: 'Search your models' });
    await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'combobox');
    const options = page.getByRole('listbox', { name: 'Models' }).getByRole('option');
    assert.equal(await options.count(), 3);
    for (const text of await options.allInnerTexts()) assert.match(text, /Q4_1 · 93\.8 MiB · 8K context/);
    assert.deepEqual(await faultsOfAccess(page), []);
    await field.fill('chat owl');
    assert.equal(await options.count(), 1);
    await field.fill('eagle');
    await page.getByText('No model matches “eagle”.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog', { name: 'Choose a model' }).waitFor({ state: 'detached' });
    assert.equal(await button.evaluate((b) => b === document.activeElement), true);
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'combobox');
    await page.keyboard.type('heron');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Model: heron-7b' }).waitFor();
    await page.getByRole('button', { name: 'Model: heron-7b' }).click();
    await page.getByRole('button', { name: 'Load now' }).click();
    await page.getByRole('button', { name: 'Model: heron-7b', exact: true }).click();
    await page.getByRole('option', { name: /heron-7b/ }).getByText('loaded', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await leave(page);
  });
});

describe('a field', () => {
  it('of choices is used by keys, and shows what is in force', async () => {
    const page = await visit(browser, `${server.url}/#/settings/general`);
    const theme = page.getByRole('combobox', { name: 'Theme' });
    await theme.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('option', { name: 'Dark' }).waitFor();
    assert.deepEqual(await faultsOfAccess(page), []);
    await page.keyboard.type('d');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    await theme.filter({ hasText: 'Dark' }).waitFor(); // the server has stored the theme
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Home');
    await page.keyboard.press('Escape');
    assert.match(await theme.innerText(), /Dark/);
    await page.keyboard.press(' ');
    await page.keyboard.press('Home');
    await page.evaluate(() => document.dispatchEvent(new Event('scroll'))); // as if a panel had scrolled
    await drawn(page);
    assert.equal(await page.getByRole('option', { name: 'Dark' }).count(), 1, 'the list stays while something scrolls');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
    assert.equal(await page.locator('select').count(), 0);
    await leave(page);
  });

  it('of a number has steps, and a slider where its range is short', async () => {
    const page = await visit(browser, server.url);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    const heat = page.getByRole('spinbutton', { name: 'Temperature' });
    await heat.fill('0.5');
    await heat.press('ArrowUp');
    assert.equal(await heat.inputValue(), '0.55');
    const row = page.locator('.entry', { has: heat });
    await row.locator('.steps button').first().click();
    assert.equal(await heat.inputValue(), '0.5');
    await row.locator('.slider').fill('1.2');
    await page.getByRole('button', { name: 'Reset Temperature' }).waitFor();
    assert.equal(await heat.inputValue(), '1.2');
    await heat.fill('-1');
    await heat.blur();
    assert.equal(await heat.evaluate((field) => field.matches(':invalid')), true);
    await page.getByRole('button', { name: 'Reset Temperature' }).click();
    await drawn(page);
    await leave(page);
  });
});

describe('the message box', () => {
  it('has chips for the preset and the reasoning, and lists presets behind a slash', async () => {
    await server.api('POST', '/app/presets', { name: 'Pirate', system: 'You are a pirate.', model: 'owl-chat', settings: { thinking: false } });
    await server.api('POST', '/app/presets', { name: 'Poet', system: 'You are a poet on {{date}}.', settings: {} });
    const page = await visit(browser, server.url);
    await page.getByRole('button', { name: 'Reasoning: Model default' }).click();
    await page.getByRole('menuitemradio', { name: 'On', exact: true }).click();
    await page.getByRole('button', { name: 'Reasoning: On' }).waitFor();
    await box(page).fill('/');
    const list = page.getByRole('listbox', { name: 'Matching presets' });
    await list.waitFor();
    assert.equal(await list.getByRole('option').count(), 2);
    assert.deepEqual(await faultsOfAccess(page), []);
    await page.keyboard.press('Escape');
    await list.waitFor({ state: 'detached' });
    await box(page).fill('/p');
    await list.waitFor();
    assert.equal(await list.locator('[aria-selected=true]').count(), 0, 'Enter would send the text');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Preset: Pirate' }).waitFor();
    await page.getByRole('button', { name: 'Model: owl-chat' }).waitFor();
    await page.getByRole('button', { name: 'Reasoning: Off' }).waitFor();
    assert.equal(await box(page).inputValue(), '');
    await page.getByRole('button', { name: 'Preset: Pirate' }).click();
    await page.getByRole('menuitemradio', { name: 'No preset' }).click();
    await page.getByRole('button', { name: 'Preset', exact: true }).click();
    await page.getByRole('menuitem', { name: 'All chat settings…' }).click();
    await page.getByRole('heading', { name: 'Chat settings' }).waitFor();
    assert.equal(await page.getByLabel('System prompt').inputValue(), '');

    await page.getByRole('button', { name: 'Import or export presets' }).click();
    const file = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: 'Export all presets' }).click();
    const path = await (await file).path();
    await server.api('DELETE', `/app/presets/${(await server.api('GET', '/app/state')).presets[0].id}`);
    await page.getByRole('button', { name: 'Import or export presets' }).click();
    const chooser = page.waitForEvent('filechooser');
    await page.getByRole('menuitem', { name: 'Import presets' }).click();
    await (await chooser).setFiles(path);
    await page.getByText('Imported 2 presets').waitFor();
    assert.deepEqual((await server.api('GET', '/app/state')).presets.map((p) => p.name), ['Pirate', 'Poet']);
    await leave(page);
  });
});

describe('the title of a chat', () => {
  it('comes from the model, and is changed in the header', async () => {
    const page = await visit(browser, server.url);
    await say(page, 'What is the capital of France?');
    await answered(page);
    const id = Number(new URL(page.url()).hash.split('/').pop());
    const title = async () => (await server.api('GET', '/app/chats')).chats.find((c) => c.id === id).title;
    while ((await title()) === 'What is the capital of France?') await page.waitForTimeout(100);
    const made = await title();
    assert.ok(made.split(' ').length <= 7, made);
    await page.getByRole('link', { name: made }).waitFor();
    await page.getByRole('button', { name: `Rename chat: ${made}` }).click();
    await page.getByRole('textbox', { name: 'Rename chat' }).fill('France');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'France', exact: true }).waitFor();
    assert.equal(await title(), 'France');
    await leave(page);
  });
});
