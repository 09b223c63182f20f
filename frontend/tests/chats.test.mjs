// Tests chats in a real browser on the real server: storing, moving, drafting.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { answered, drawn, held, launch, leave, say, select, told, visit, write } from './browser.mjs';
import { conversation, lastingPort, newHome, serve } from './server.mjs';

let browser;
let server;

before(async () => {
  browser = await launch();
  // Answers are limited to 40 tokens, because stories rarely end by themselves.
  server = await serve(newHome(true, 'predict = 40\n', 'context_shift = true\n'), [], await lastingPort());
});

after(async () => {
  await browser?.close();
  await server?.stop();
  server?.remove();
});

/** Opens a chat with the given messages. */
async function opened(title, messages, options) {
  const { chats } = await server.api('POST', '/app/import', conversation(title, messages));
  const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`, options);
  await page.locator('article').last().waitFor();
  return page;
}

const box = (page) => page.getByRole('textbox', { name: 'Message', exact: true });

/** Opens a chat that has no messages yet. */
async function newChat(page) {
  await page.getByRole('link', { name: 'New chat' }).first().click(); // later links with this name are chats without a title
  await page.getByRole('button', { name: 'Chat actions' }).waitFor({ state: 'detached' });
  await page.getByText('What can I help with?').waitFor();
}

async function choose(page, menu, item) {
  await page.getByRole('button', { name: menu, exact: true }).click();
  await page.getByRole('menuitem', { name: item, exact: true }).click();
}

describe('a chat', () => {
  it('continues where an answer ended, and loses a message that is deleted', async () => {
    const page = await visit(browser, server.url);
    await say(page, 'Tell me a long story about a bird.');
    const first = await answered(page);
    await page.getByText('Stopped: length limit').waitFor();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForFunction((n) => document.querySelector('article:not(.mine) .prose').textContent.length > n + 20, first.length);
    const whole = await answered(page);
    assert.ok(whole.startsWith(first.slice(0, 40)), `${whole} does not begin as ${first}`);
    await page.locator('article:not(.mine)').getByRole('button', { name: 'Delete' }).click();
    await page.locator('article:not(.mine)').waitFor({ state: 'detached' });
    assert.equal(await page.locator('article').count(), 1);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.locator('article:not(.mine)').waitFor();
    await page.locator('article.mine').hover();
    await page.locator('article.mine').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('2 messages deleted').waitFor();
    const id = new URL(page.url()).hash.split('/').pop();
    const ended = page.waitForResponse((answer) => answer.request().method() === 'DELETE', { timeout: 10_000 });
    await say(page, 'Hello.'); // a pending deletion is completed first
    await ended;
    await answered(page);
    assert.deepEqual((await server.api('GET', `/app/chats/${id}`)).messages.map((m) => m.role), ['user', 'assistant']);
    await leave(page);
  });

  it('says of an answer without a word that it has none', async () => {
    const page = await opened('Without a word', ['Hello.', '']);
    const answer = page.locator('article:not(.mine)');
    await answer.getByText('The model returned an empty response.').waitFor();
    assert.deepEqual(await answer.getByRole('button').evaluateAll((all) => all.map((one) => one.title)), ['Regenerate', 'Delete']);
    await leave(page);
  });

  it('shows as placeholders what the settings say, also when they change', async () => {
    const page = await visit(browser, server.url);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    const [length, heat] = [page.getByRole('spinbutton', { name: /^Maximum response/ }), page.getByRole('spinbutton', { name: 'Temperature' })];
    const says = (field, text) => field.and(page.locator(`[placeholder="${text}"]`)).waitFor();
    await says(length, '40');
    await says(heat, '0');
    await server.api('POST', '/app/settings', { changes: { 'sampling.predict': null, 'sampling.temperature': 0.5 } });
    await says(length, 'No limit');
    await says(heat, '0.5');
    await server.api('POST', '/app/settings', { changes: { 'sampling.predict': 40, 'sampling.temperature': 0 } });
    await says(length, '40');
    await length.fill('-3');
    await length.blur();
    assert.equal(await length.evaluate((field) => field.matches(':invalid')), true);
    await leave(page);
  });

  it('is renamed, pinned, put into a folder and deleted', async () => {
    const page = await opened('A chat to move', ['Hello.', 'Hi.']);
    await choose(page, 'Chat actions', 'Rename');
    await page.getByRole('textbox', { name: 'Rename chat' }).fill('Renamed');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Renamed' }).waitFor();
    await choose(page, 'Chat actions', 'Pin');
    await page.getByRole('region', { name: 'Pinned' }).getByRole('link', { name: 'Renamed' }).waitFor();
    await choose(page, 'Chat actions', 'Unpin');
    await choose(page, 'Chat actions', 'Move to new folder…');
    await page.getByRole('textbox', { name: 'New folder' }).fill('Birds');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Birds' }).getByRole('link', { name: 'Renamed' }).waitFor();
    await page.reload();
    await page.getByRole('region', { name: 'Birds' }).getByRole('link', { name: 'Renamed' }).waitFor();
    const link = page.getByRole('link', { name: 'Renamed' });
    await choose(page, 'Folder Birds', 'Delete folder');
    await page.getByRole('region', { name: 'Birds' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('region', { name: 'Birds' }).getByRole('link', { name: 'Renamed' }).waitFor();
    await choose(page, 'Chat actions', 'Delete');
    await link.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Undo' }).click();
    await link.waitFor();
    await page.getByText('Hi.', { exact: true }).waitFor();
    await choose(page, 'Chat actions', 'Delete');
    await link.waitFor({ state: 'detached' });
    const ended = page.waitForResponse((answer) => answer.request().method() === 'DELETE', { timeout: 10_000 });
    await page.reload(); // before the time for undo is over
    await ended.catch(() => undefined); // the page that sent the request is gone
    for (;;) if (!(await server.api('GET', '/app/chats')).chats.some((c) => c.title === 'Renamed')) break;
    await leave(page);
  });

  it('keeps a preset of its settings for others', async () => {
    const page = await opened('With a preset', ['Hello.', 'Hi.']);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.getByLabel('System prompt').fill('You are a bird.');
    await page.getByLabel('System prompt').blur();
    await page.getByRole('button', { name: 'Save as preset' }).click();
    await page.getByRole('textbox', { name: 'Save as preset' }).fill('Bird');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Delete preset' }).waitFor();
    await newChat(page);
    await select(page.getByRole('combobox', { name: 'Preset' }), 'Bird');
    await page.waitForFunction(() => document.querySelector('aside textarea').value === 'You are a bird.');
    await leave(page);
  });

  it('keeps to itself what was asked before another was opened', async () => {
    const page = await opened('Left early', ['Hello.', 'Hi.']);
    await page.getByRole('button', { name: 'Chat settings' }).click();
    const id = new URL(page.url()).hash.split('/').pop();
    const changed = page.waitForResponse(`**/app/chats/${id}`);
    const sent = page.waitForResponse(`**/app/chats/${id}/messages`);
    const letGo = await held(page, new RegExp(`/app/chats/${id}(/messages)?$`));
    await page.getByLabel('System prompt').fill('You are an owl.');
    await page.getByLabel('System prompt').blur();
    await write(page, 'Who are you?');
    await newChat(page);
    await box(page).fill('For the new one.');
    letGo();
    await (await changed).finished();
    await (await sent).finished();
    await page.getByRole('combobox', { name: /^Preset/ }).waitFor();
    await drawn(page);
    assert.equal(await page.locator('article').count(), 0);
    assert.equal(await page.getByLabel('System prompt').inputValue(), '');
    assert.equal(await box(page).inputValue(), 'For the new one.');
    await page.getByRole('link', { name: 'Left early' }).click();
    await page.locator('.said', { hasText: 'Who are you?' }).waitFor();
    assert.equal(await box(page).inputValue(), '');
    await page.waitForFunction(() => document.querySelector('aside textarea')?.value === 'You are an owl.');
    await answered(page);
    await leave(page);
  });

  it('takes a message before it is read, after its end', async () => {
    const { chats } = await server.api('POST', '/app/import', conversation('Read late', ['Hello.', 'Hi.']));
    const page = await visit(browser, server.url);
    const letGo = await held(page, `**/app/chats/${chats[0].id}?*`);
    await page.getByRole('link', { name: 'Read late' }).click();
    await page.getByRole('button', { name: 'Chat actions' }).waitFor();
    await write(page, 'Are you awake?');
    letGo();
    await page.locator('.said', { hasText: 'Are you awake?' }).waitFor();
    assert.equal(await page.locator('article').count(), 4);
    await answered(page);
    await leave(page);
  });

  it('is not begun by a message that cannot be sent, which stays', async () => {
    const page = await visit(browser, server.url);
    const before = (await server.api('GET', '/app/chats')).chats.length;
    await page.route('**/app/chats/*/messages', (route) => route.fulfill({ status: 507, json: { error: { message: 'the disk is full' } } }));
    await write(page, 'Keep me.');
    await told(page, 'The disk is full');
    await page.waitForFunction(() => document.querySelector('form.composer textarea').value === 'Keep me.');
    assert.equal(await page.locator('article').count(), 0);
    assert.equal((await server.api('GET', '/app/chats')).chats.length, before);
    await page.unroute('**/app/chats/*/messages');
    await page.keyboard.press('Enter');
    await answered(page);
    await newChat(page);
    assert.equal(await box(page).inputValue(), '');
    await leave(page);
  });

  it('keeps all of several changes, and those of another window', async () => {
    const page = await opened('Set twice', ['Hello.', 'Hi.']);
    const id = new URL(page.url()).hash.split('/').pop();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.getByLabel('System prompt').waitFor();
    await server.api('POST', `/app/chats/${id}`, { settings: { max_tokens: 5 } });
    await page.waitForFunction(() => [...document.querySelectorAll('aside .entry input[type=number]')].some((field) => field.value === '5'));
    const letGo = await held(page, `**/app/chats/${id}`);
    for (const [name, value] of [['Temperature', '0.5'], ['Top P', '0.7'], ['Top K', '9']]) await page.getByLabel(name, { exact: true }).fill(value);
    await page.getByLabel('Top K', { exact: true }).blur();
    letGo();
    await page.getByRole('button', { name: 'Reset Top K' }).waitFor();
    const { settings } = (await server.api('GET', `/app/chats/${id}`)).chat;
    assert.deepEqual(settings, { max_tokens: 5, sampling: { temperature: 0.5, top_p: 0.7, top_k: 9 } });
    await server.api('DELETE', `/app/chats/${id}`);
    await page.getByText('This chat no longer exists.').waitFor();
    await leave(page);
  });

  it('stays where it is when a branch in its middle is chosen', async () => {
    const page = await opened('Middle', Array.from({ length: 200 }, (_, i) => `Message ${i}.`));
    const id = new URL(page.url()).hash.split('/').pop();
    const [old] = (await server.api('GET', `/app/chats/${id}/messages?before=51&limit=1`)).messages;
    const begun = await server.api('POST', `/app/messages/${old.id}/edit`, { content: 'Another.', attachments: [], model: 'small' });
    await server.api('POST', `/app/messages/${begun.messages.at(-1).id}/stop`);
    await page.goto(`${server.url}/#/chat/${id}/${begun.messages[0].id}`);
    const branch = page.locator('article', { hasText: 'Another.' });
    await branch.getByRole('button', { name: 'Previous branch' }).click();
    await page.locator('.said', { hasText: 'Message 50.' }).waitFor();
    await leave(page);
  });

  it('shows thoughts, folded, and tool calls', async () => {
    const made = JSON.parse(conversation('With tools', ['Weather?', 'It is sunny.']));
    Object.assign(made.chats[0].messages[1], {
      reasoning: 'They ask for the weather.',
      tool_calls: [{ id: '1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } }, null, { function: { name: '<b>x</b>', arguments: { a: 1 } } }],
    });
    const { chats } = await server.api('POST', '/app/import', JSON.stringify(made));
    const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
    const thoughts = page.locator('details.reasoning');
    await thoughts.waitFor();
    assert.equal(await thoughts.getAttribute('open'), null);
    await thoughts.locator('summary').click();
    await page.getByText('They ask for the weather.').waitFor();
    await page.getByText('"city": "Bern"').waitFor();
    await page.getByText('Called a tool').waitFor();
    await page.getByText('Called <b>x</b>').waitFor();
    await leave(page);
  });
});

describe('what is written and not sent', () => {
  /** Waits until the browser stores the given number of drafts and the given number of windows is open. */
  const keeps = (page, drafts, windows = 1) =>
    page.waitForFunction(
      async ([drafts, windows]) =>
        Object.keys(localStorage).filter((key) => key.startsWith('godwit.draft.')).length === drafts && (await navigator.locks.query()).held.length === windows,
      [drafts, windows],
    );
  const holds = (page, text) => page.waitForFunction((text) => document.querySelector('form.composer textarea')?.value === text, text);

  /** Opens another window of the same browser. */
  async function beside(page, address = page.url()) {
    const other = await page.context().newPage();
    other.on('pageerror', (err) => page.faults.push(`error: ${err.message}`));
    await other.goto(address);
    await box(other).waitFor();
    return other;
  }

  it('is there after a reload, each in its chat, until it is sent', async () => {
    const page = await opened('Written', ['Hello.', 'Hi.', 'Bye.', 'See you.']);
    const address = page.url();
    await box(page).fill('For the old one.');
    await page.locator('.composer').dispatchEvent('drop', {
      dataTransfer: await page.evaluateHandle(() => {
        const transfer = new DataTransfer();
        transfer.items.add(new File(['far'], 'notes.txt'));
        return transfer;
      }),
    });
    await page.getByText('notes.txt').waitFor();
    await page.locator('article', { hasText: 'Bye.' }).getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Edit message' }).fill('Edited.');
    await newChat(page);
    await box(page).fill('For the new one.');
    await page.reload();
    await holds(page, 'For the new one.');
    await page.goto(address);
    await page.reload();
    await holds(page, 'For the old one.');
    await page.getByText('notes.txt').waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Edit message' }).inputValue(), 'Edited.');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await box(page).press('Enter');
    await page.locator('.said', { hasText: 'For the old one.' }).waitFor();
    await answered(page);
    await keeps(page, 1);
    await page.reload();
    await page.locator('.said', { hasText: 'For the old one.' }).waitFor();
    assert.equal(await box(page).inputValue(), '');
    await newChat(page);
    await holds(page, 'For the new one.');
    await box(page).press('Enter');
    await page.locator('.said', { hasText: 'For the new one.' }).waitFor();
    await answered(page);
    await keeps(page, 0);
    await leave(page);
  });

  it('is the same in two windows with one chat, and its own in two new chats', async () => {
    const page = await opened('Twice open', ['Hello.', 'Hi.']);
    const other = await beside(page);
    await box(page).fill('Seen in both.');
    await holds(other, 'Seen in both.');
    await box(other).fill('Sent from the other.');
    await holds(page, 'Sent from the other.');
    await box(other).press('Enter');
    await holds(page, '');
    await answered(page);
    await newChat(page);
    await box(page).fill('New in one.');
    await keeps(page, 1, 2);
    await newChat(other);
    assert.equal(await box(other).inputValue(), '');
    const third = await beside(page);
    assert.equal(await box(third).inputValue(), '');
    await box(third).fill('New in the third.');
    await keeps(page, 2, 3);
    assert.equal(await box(page).inputValue(), 'New in one.');
    await third.close();
    await keeps(page, 2, 2);
    const fourth = await beside(page);
    await holds(fourth, 'New in the third.');
    await fourth.reload();
    await holds(fourth, 'New in the third.');
    await keeps(page, 2, 3);
    await leave(page);
  });

  it('is saved as well where it is a system prompt', async () => {
    const page = await opened('Prompted', ['Hello.', 'Hi.']);
    const id = new URL(page.url()).hash.split('/').pop();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    const saved = page.waitForResponse(`**/app/chats/${id}`);
    await page.getByLabel('System prompt').fill('You are a heron.');
    await (await saved).finished(); // the field still has the focus
    await page.reload();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.waitForFunction(() => document.querySelector('aside textarea')?.value === 'You are a heron.');
    await newChat(page);
    await page.waitForFunction(() => document.querySelector('aside textarea')?.value === '');
    await page.getByLabel('System prompt').fill('You are a stork.');
    await page.waitForFunction(() => sessionStorage.getItem('godwit.settings')?.includes('stork'));
    await page.reload();
    await page.getByRole('button', { name: 'Chat settings' }).click();
    await page.waitForFunction(() => document.querySelector('aside textarea')?.value === 'You are a stork.');
    await say(page, 'Who are you?');
    const made = new URL(page.url()).hash.split('/').pop();
    assert.equal((await server.api('GET', `/app/chats/${made}`)).chat.system, 'You are a stork.');
    await page.waitForFunction(() => sessionStorage.getItem('godwit.settings') === '{}');
    await answered(page);
    await leave(page);
  });

  it('is forgotten with its chat', async () => {
    const page = await opened('Dropped with a draft', ['Hello.', 'Hi.']);
    await box(page).fill('A secret.');
    await keeps(page, 1);
    await choose(page, 'Chat actions', 'Delete');
    await keeps(page, 0);
    await holds(page, '');
    await leave(page);
  });

  it('stays where it cannot be sent and the page goes', async () => {
    const page = await visit(browser, server.url);
    await page.route('**/app/chats/*/messages', () => undefined); // no answer arrives
    await write(page, 'On its way.');
    await holds(page, '');
    await box(page).fill('And more.');
    await keeps(page, 1);
    await page.reload();
    await holds(page, 'On its way.\nAnd more.');
    await leave(page);
  });
});
