// Growing answers, files, and returning later, in a real browser on the real
// server.
import assert from 'node:assert/strict';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { answered, launch, leave, say, told, visit, write } from './browser.mjs';
import { conversation, lastingPort, modelFile, newHome, serve } from './server.mjs';

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

describe('an answer that grows', () => {
  it('changes its last block alone', async () => {
    const list = Array.from({ length: 200 }, (_, i) => `- item ${i}`).join('\n');
    const page = await opened('Grows', ['Tell me a story.', `# A story\n\n${list}\n\n\`\`\`go\nfunc main() {}\n\`\`\`\n\nOnce upon a time`]);
    await page.locator('.prose .block').last().getByText('Once upon a time').waitFor();
    await page.locator('.prose .hljs-keyword').first().waitFor(); // highlighting follows the text
    await page.evaluate(() => {
      const prose = document.querySelector('article:not(.mine) .prose');
      globalThis.changed = { earliest: Infinity, times: 0, blocks: prose.children.length };
      new MutationObserver((records) => {
        for (const { target } of records) {
          const at = [...prose.children].findIndex((block) => block.contains(target));
          if (at >= 0) globalThis.changed.earliest = Math.min(globalThis.changed.earliest, at);
          globalThis.changed.times++;
        }
      }).observe(prose, { childList: true, characterData: true, subtree: true });
    });
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForFunction(() => globalThis.changed.times > 0);
    await answered(page);
    const { earliest, times, blocks } = await page.evaluate(() => globalThis.changed);
    assert.ok(times > 0, 'nothing changed');
    assert.ok(earliest >= blocks - 1, `block ${earliest} of ${blocks} changed`);
    await leave(page);
  });
});

describe('long code', () => {
  it('is coloured bit by bit and copied as it is', async () => {
    const lines = Array.from({ length: 300 }, (_, i) => (i % 9 === 8 ? '' : i % 60 === 1 ? '/* a comment' : i % 60 === 20 ? 'ends here */' : `func f${i}() string { return "x" } // ${i}`));
    const page = await opened('Code', ['Write code.', `Here:\n\n\`\`\`go\n${lines.join('\n')}\n\`\`\`\n`]);
    const code = page.locator('figure.code code');
    await page.waitForFunction((length) => {
      const parts = [...document.querySelectorAll('figure.code .part')];
      return parts.length > 3 && document.querySelector('figure.code code').textContent.length === length && parts.every((part) => part.querySelector('span'));
    }, lines.join('\n').length);
    assert.equal(await code.evaluate((e) => e.textContent), lines.join('\n'));
    // The comment that spans several parts is highlighted as one comment.
    assert.ok((await code.locator('.hljs-comment', { hasText: 'ends here' }).count()) > 0);
    const selected = await code.evaluate((e) => {
      getSelection().selectAllChildren(e);
      return getSelection().toString();
    });
    assert.equal(selected.trimEnd(), lines.join('\n').trimEnd());
    await leave(page);
  });
});

describe('files', () => {
  /** Drops files on an element, with the events of a browser. */
  const drop = (page, where, files) =>
    page.locator(where).first().evaluate((element, list) => {
      const transfer = new DataTransfer();
      for (const [name, text] of list) transfer.items.add(new File([text], name));
      for (const type of ['dragover', 'drop']) element.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, files);

  it('are attached wherever they are dropped on a chat', async () => {
    const page = await opened('Drop', ['Hello.', 'Hi.']);
    const address = page.url();
    await drop(page, 'article', [['notes.txt', 'The godwit flies far.']]);
    await page.getByRole('list', { name: 'Attached files' }).getByText('notes.txt').waitFor();
    await drop(page, 'nav', [['picture.bin', '\u0000\u0001']]);
    await told(page, "can't be attached");
    assert.equal(page.url(), address);
    await page.getByRole('button', { name: 'Remove notes.txt' }).click();
    await page.getByText('notes.txt').waitFor({ state: 'detached' });
    await leave(page);
  });

  it('of models go to the library, and say why they cannot be used', async () => {
    const page = await visit(browser, `${server.url}/#/models`);
    await drop(page, '.models', [['broken.gguf', 'this is not a model']]);
    await page.getByRole('alert').filter({ hasText: /broken/ }).first().waitFor();
    await drop(page, '.models', [['notes.txt', 'words']]);
    await told(page, "isn't a GGUF file");
    await leave(page);
  });
});

describe('the page', () => {
  it('is used by keys', async () => {
    const page = await opened('Keys', ['Hello.', 'Hi.']);
    await page.keyboard.press('Control+b');
    await page.getByRole('navigation', { name: 'Chats' }).waitFor({ state: 'detached' });
    await page.keyboard.press('Control+b');
    await page.getByRole('navigation', { name: 'Chats' }).waitFor();
    await page.keyboard.press('Control+,');
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    await page.keyboard.press('Control+Shift+o');
    await page.getByText('What can I help with?').waitFor();
    await page.getByRole('textbox', { name: 'Message', exact: true }).blur();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await server.api('POST', '/app/settings', { changes: { 'sampling.predict': null } }); // otherwise all 40 tokens would be finished before the key is pressed
    await say(page, 'Tell me a long story about the sea.');
    await page.locator('article[data-status=running] .prose').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('article:not(.mine)[data-status=stopped]').waitFor();
    await server.api('POST', '/app/settings', { changes: { 'sampling.predict': 40 } });
    await leave(page);
  });

  it('keeps the keys where they were of use', async () => {
    const page = await visit(browser, server.url);
    const on = (name) => page.waitForFunction((name) => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()) === name, name);
    const press = async (name) => {
      const button = page.locator(`main button[aria-label="${name}"]:enabled`).last();
      await button.waitFor();
      await button.press('Enter');
    };
    await say(page, 'Name a bird.');
    await answered(page);
    await press('Chat actions');
    await on('Rename');
    await page.keyboard.press('Enter');
    await on('Rename chat');
    await page.keyboard.type('My bird');
    await page.keyboard.press('Enter');
    await on('Chat actions');
    await page.getByRole('link', { name: 'My bird' }).waitFor();
    assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'My bird');
    await press('Regenerate');
    await page.getByText('2 / 2').waitFor();
    await on('Message');
    await answered(page);
    await press('Previous branch');
    await page.getByText('1 / 2').waitFor();
    await on('Next branch');
    await press('Edit');
    await on('Edit message');
    await page.keyboard.press('Escape');
    await on('Edit');
    await press('Delete');
    await on('Cancel');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('1 / 2').waitFor({ state: 'detached' });
    await on('Message');
    await page.keyboard.press('Control+k');
    await on('Search all chats');
    await page.keyboard.type('bird');
    await page.getByRole('option', { name: /My bird/ }).first().waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await on('Message');
    await leave(page);
  });

  it('fits a small screen, whatever the names', async () => {
    const long = 'A-model-with-a-name-that-no-small-screen-has-the-room-for-Q4_K_M';
    const broken = 'broken-file-with-a-long-name-as-well-Q4_K_M';
    const models = join(server.home, 'data', 'models');
    symlinkSync(modelFile(), join(models, `${long}.gguf`));
    writeFileSync(join(models, `${broken}.gguf`), 'this is not a model');
    await server.api('POST', '/app/library/refresh', {});
    const made = JSON.parse(conversation('A title '.repeat(12), ['word'.repeat(60), 'Hi.']));
    made.chats[0].model = long;
    const { chats } = await server.api('POST', '/app/import', JSON.stringify(made));
    for (const width of [320, 390]) {
      const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`, { viewport: { width, height: 640 } });
      for (const [at, name] of [[`chat/${chats[0].id}`, 'Chat actions'], ['models', `Details for ${long}`], ['settings/kv', 'Model'], ['settings/about', 'Copy diagnostics']]) {
        await page.evaluate((at) => (location.hash = `#/${at}`), at);
        const last = at === 'settings/kv' ? page.getByRole('combobox', { name, exact: true }) : page.getByRole('button', { name });
        await last.waitFor();
        await page.waitForFunction(() => [...document.querySelectorAll('main button, main input, main select, main h1, main h2')].every((e) => e.closest('nav') || e.getBoundingClientRect().right <= innerWidth));
      }
      await leave(page);
    }
    for (const name of [long, broken]) rmSync(join(models, `${name}.gguf`));
    await server.api('POST', '/app/library/refresh', {});
  });

  it('stands still for those who want it', async () => {
    const page = await opened('Still', ['Hello.', 'Hi.'], { reducedMotion: 'reduce' });
    const moving = await page.evaluate(() =>
      [...document.querySelectorAll('*')].filter((e) => {
        const style = getComputedStyle(e);
        return [style.transitionDuration, style.animationDuration].some((list) => list.split(',').some((d) => Number.parseFloat(d) > 0.01));
      }).length,
    );
    assert.equal(moving, 0);
    await leave(page);
  });

  it('gives diagnostics without a word of a chat', async () => {
    const page = await opened('Secret title', ['My secret question.', 'A secret answer.'], { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.goto(`${server.url}/#/settings/about`);
    await page.getByRole('button', { name: 'Copy diagnostics' }).click();
    await told(page, 'Diagnostics copied');
    const text = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(text, /small/);
    assert.doesNotMatch(text, /secret/i);
    await leave(page);
  });
});

describe('another run of the program', () => {
  /** Ends the server and starts it again at the same address. */
  async function again() {
    const port = Number(new URL(server.url).port);
    await server.stop();
    server = await serve(server.home, [], port);
  }

  it('continues with a chat without reading it again', async () => {
    const page = await visit(browser, server.url);
    await say(page, `Remember this: ${'the godwit flies far over the sea. '.repeat(12)}`);
    await answered(page);
    const address = page.url();
    await leave(page);
    await again();
    const next = await visit(browser, address);
    await next.locator('article').last().waitFor();
    await say(next, 'What flies far?');
    await answered(next);
    await next.getByText(/[\d,]+ of [\d,]+ prompt tokens cached(?: on disk|, [\d,]+ of them on disk)/).waitFor();
    await next.waitForFunction(() => /4K.* MiB.*, 40 reserved for the response/s.test(document.querySelector('a.meter')?.textContent ?? ''));
    assert.equal(await next.locator('a.meter circle').count(), 3); // the context, the used part, the cached part
    await leave(next);
  });

  it('has what there was of an answer that was being written', async () => {
    const page = await visit(browser, server.url);
    await server.api('POST', '/app/settings', { changes: { 'sampling.predict': null } });
    await say(page, 'Tell me a very long story about a bird that flies over the sea.');
    await page.waitForFunction(() => (document.querySelector('article:not(.mine) .prose')?.textContent?.length ?? 0) > 60);
    const before = await page.locator('article:not(.mine) .prose').innerText();
    const address = page.url();
    await leave(page);
    await again();
    const next = await visit(browser, address);
    await next.locator('article[data-status=stopped]').waitFor();
    const after = await answered(next);
    assert.ok(after.startsWith(before.slice(0, 60)), `${after} does not begin as ${before}`);
    await leave(next);
  });
});
