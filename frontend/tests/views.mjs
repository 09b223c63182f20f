// Every view and dialog of the page, for tests that look at all of them.
import { drawn } from './browser.mjs';
import { conversation, weather } from './server.mjs';

/** Fills a server: two chats, of which the second waits for the result of a tool call, and a preset. */
export async function furnish(server) {
  const answer = '# Birds\n\nA *list*:\n\n- [x] one\n- two\n\n```go\nfunc main() { fmt.Println("a line of code that is longer than a narrow window is wide") }\n```\n\n| a | b | c |\n|---|---|---|\n| 1 | 2 | a cell with several words |\n\n$$x^2$$\n\n> quoted [link](https://example.com/with/a/long/path/that/has/no/place/to/break)';
  const chat = (await server.api('POST', '/app/import', conversation('Birds', ['Tell me about birds.', answer]))).chats[0].id;
  const made = JSON.parse(conversation('A call', ['What is the weather in Bern?', '']));
  Object.assign(made.chats[0].messages[1], { reasoning: 'They ask for the weather.', tool_calls: [{ id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } }] });
  const call = (await server.api('POST', '/app/import', JSON.stringify(made))).chats[0].id;
  await server.api('POST', '/app/presets', { name: 'Meteorologist', system: 'You know the weather.', settings: { tools: [weather] } });
  await server.api('POST', '/app/models/small/load');
  return { chat, call };
}

const press = async (scope, role, name) => scope.getByRole(role, { name }).first().click();

/** Returns the views. Each is defined by an address, an optional action there, and an element that then appears. */
export function views({ chat, call }) {
  const panel = async (page) => {
    await press(page, 'button', 'Chat settings');
    await page.getByRole('heading', { name: 'Chat settings' }).waitFor();
  };
  const assistant = async (page) => {
    await panel(page);
    await page.getByRole('combobox', { name: 'Preset' }).click();
    await page.getByRole('option', { name: 'Meteorologist' }).click();
    await page.getByRole('button', { name: 'Edit weather' }).waitFor();
  };
  const all = {
    'new chat': ['#/chat', undefined, (page) => page.getByText('What can I help with?')],
    'chat': [`#/chat/${chat}`, undefined, (page) => page.locator('article .hljs-keyword')],
    'tool call': [`#/chat/${call}`, undefined, (page) => page.getByLabel('Result of weather')],
    'edited message': [`#/chat/${chat}`, async (page) => {
      await page.locator('article.mine').first().hover();
      await press(page.locator('article.mine').first(), 'button', 'Edit');
    }, (page) => page.getByLabel('Edit message')],
    'chat settings': [`#/chat/${chat}`, async (page) => {
      await panel(page);
      for (const part of await page.locator('aside summary').all()) if (!(await part.evaluate((e) => e.parentElement.open))) await part.click();
    }, (page) => page.getByLabel('Typical P')],
    'assistant': [`#/chat/${chat}`, assistant, (page) => page.getByRole('button', { name: 'Add tool' })],
    'tool': [`#/chat/${chat}`, async (page) => {
      await assistant(page);
      await press(page, 'button', 'Edit weather');
    }, (page) => page.getByRole('dialog', { name: 'Edit tool' })],
    'slash menu': [`#/chat/${chat}`, (page) => page.getByRole('textbox', { name: 'Message', exact: true }).fill('/'), (page) => page.getByRole('option', { name: /Meteorologist/ })],
    'model picker': ['#/chat', (page) => press(page, 'button', /^Model: /), (page) => page.getByRole('option', { name: /small/ })],
    'menu': [`#/chat/${chat}`, (page) => press(page, 'button', 'Chat actions'), (page) => page.getByRole('menuitem', { name: 'Rename' })],
    'rename': [`#/chat/${chat}`, async (page) => {
      await press(page, 'button', 'Chat actions');
      await press(page, 'menuitem', 'Rename');
    }, (page) => page.getByRole('dialog', { name: 'Rename chat' })],
    'search': [`#/chat/${chat}`, (page) => page.keyboard.press('Control+k'), (page) => page.getByRole('option').first()],
    'shortcuts': ['#/models', async (page) => {
      await page.getByRole('heading', { name: 'Models', exact: true }).first().waitFor();
      await page.keyboard.press('?');
    }, (page) => page.getByRole('dialog', { name: 'Keyboard shortcuts' })],
    'models': ['#/models', async (page) => {
      await press(page, 'button', /^Details for/);
      await page.getByText('Chat template', { exact: true }).waitFor();
    }, (page) => page.getByText('Licence', { exact: true })],
    'model settings': ['#/models', async (page) => {
      await press(page, 'button', /^Settings for small/);
      for (const part of await page.getByRole('region', { name: 'Settings for small' }).locator('summary').all()) if (!(await part.evaluate((e) => e.parentElement.open))) await part.click();
    }, (page) => page.getByLabel('Typical P')],
    'hub': ['#/models/hub', undefined, (page) => page.getByRole('heading', { name: 'Find a model' })],
    'kv': ['#/settings/kv', async (page) => {
      await page.locator('summary', { hasText: 'Advanced' }).click();
      await page.locator('summary', { hasText: 'All layers' }).click();
    }, (page) => page.locator('figure[data-ready=true] canvas')],
    'type picker': ['#/settings/kv', async (page) => {
      await page.locator('summary', { hasText: 'Advanced' }).click();
      await press(page, 'combobox', 'Key type');
    }, (page) => page.getByRole('listbox')],
    'about': ['#/settings/about', undefined, (page) => page.getByText('Copy diagnostics')],
  };
  for (const name of ['General', 'Runtime', 'Sampling', 'Server', 'Library']) all[name.toLowerCase()] = [`#/settings/${name.toLowerCase()}`, undefined, (page) => page.getByRole('region', { name }).locator('.setting')];
  return Object.entries(all).map(([name, [at, act, there]]) => ({
    name,
    async show(page, url) {
      await page.goto(`${url}/${at}`);
      await page.reload(); // removes what is left of the previous view
      await page.getByText('Starting', { exact: true }).waitFor({ state: 'detached' });
      await (name === 'kv' || name === 'type picker' ? page.locator('figure[data-ready=true] canvas') : page.locator('main :is(h1, h2, textarea)')).first().waitFor({ state: 'attached' });
      await act?.(page);
      await there(page).first().waitFor();
      await drawn(page);
    },
  }));
}
