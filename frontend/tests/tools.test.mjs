// Tools of a chat and of a preset, and tool calls that the user answers.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { answered, launch, leave, select, visit } from './browser.mjs';
import { conversation, newHome, serve, weather } from './server.mjs';

let browser, server;
before(async () => {
  browser = await launch();
  server = await serve(newHome(true, 'predict = 12\n'));
});
after(async () => {
  await browser?.close();
  await server?.stop();
  server?.remove();
});

const presets = async () => (await server.api('GET', '/app/state')).presets;

it('keeps tools with a chat and with a preset, and sends them', async () => {
  const page = await visit(browser, server.url);
  await page.getByRole('button', { name: 'Chat settings' }).click();
  await page.locator('summary', { hasText: 'Tools' }).click();
  await page.getByRole('button', { name: 'Add tool' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add tool' });
  await dialog.getByLabel('Function name').fill('look up');
  await dialog.getByLabel('Function name').press('Enter');
  await dialog.getByText(/letters, digits, dots/).last().waitFor(); // the dialog shows the error
  await dialog.getByLabel('Parameters').fill('[1]');
  await dialog.getByText('This is not a JSON object.').waitFor();
  assert.equal(await dialog.getByRole('button', { name: 'Save' }).isDisabled(), true);
  await dialog.getByLabel('Parameters').fill(JSON.stringify(weather)); // a whole definition fills every field
  assert.equal(await dialog.getByLabel('Function name').inputValue(), 'weather');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('Tools (1)').waitFor();
  await page.getByRole('button', { name: 'Save as preset' }).click();
  await page.getByRole('textbox', { name: 'Save as preset' }).fill('Meteorologist');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Preset: Meteorologist' }).waitFor();
  assert.deepEqual((await presets())[0].settings.tools, [weather]);

  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Hello.');
  await page.keyboard.press('Enter');
  await answered(page);
  const id = new URL(page.url()).hash.split('/').pop();
  const { chat, messages } = await server.api('GET', `/app/chats/${id}`);
  assert.deepEqual(chat.settings.tools, [weather]);
  assert.ok(messages[1].stats.prompt_tokens > 80, 'the tool is part of the prompt');
  await page.getByRole('button', { name: 'Remove weather' }).click();
  await page.getByRole('button', { name: 'Preset', exact: true }).waitFor();
  await select(page.getByRole('combobox', { name: 'Preset' }), 'Meteorologist');
  await page.getByRole('button', { name: 'Remove weather' }).waitFor();
  await leave(page);
});

it('shows a call with its arguments, and resumes with the result that is typed', async () => {
  const made = JSON.parse(conversation('Two calls', ['What is the weather in Bern and Chur?', '']));
  const calls = ['Bern', 'Chur'].map((city) => ({ id: city, type: 'function', function: { name: 'weather', arguments: JSON.stringify({ city }) } }));
  Object.assign(made.chats[0].messages[1], { tool_calls: calls });
  const id = (await server.api('POST', '/app/import', JSON.stringify(made))).chats[0].id;
  const page = await visit(browser, `${server.url}/#/chat/${id}`);
  await page.getByText('"city": "Bern"').waitFor();
  const send = page.getByRole('button', { name: 'Send results' });
  assert.equal(await page.getByRole('button', { name: 'Continue' }).count(), 0);
  await page.getByLabel('Result of weather').first().fill('Rain');
  assert.equal(await send.isDisabled(), true, 'one result is missing');
  await page.getByLabel('Result of weather').last().fill('Sun');
  await page.getByLabel('Result of weather').last().press('Control+Enter');
  await page.locator('pre.result', { hasText: 'Sun' }).waitFor();
  await answered(page);
  const { messages } = await server.api('GET', `/app/chats/${id}`);
  assert.deepEqual(messages.map((m) => [m.role, m.tool_call_id ?? '']), [['user', ''], ['assistant', ''], ['tool', 'Bern'], ['tool', 'Chur'], ['assistant', '']]);
  assert.equal(messages[4].status, 'done');
  assert.equal(await send.count(), 0);
  await leave(page);
});
