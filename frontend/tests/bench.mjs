// Measures the page on the real server with the real small model and prints a
// table: GODWIT_BIN=../build/bin/godwit node tests/bench.mjs
import { cpus } from 'node:os';
import { launch, visit } from './browser.mjs';
import { player } from './player.mjs';
import { conversation, manyMessages, newHome, serve } from './server.mjs';

const runs = Number(process.env.RUNS ?? 5);
const browser = await launch();
const server = await serve(newHome());
const stage = await player(server);
const row = (what, got, aim) => console.log(`| ${what} | ${got} | ${aim} |`);
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const ms = (list) => `${Math.round(median(list))} ms (${Math.round(Math.min(...list))} to ${Math.round(Math.max(...list))})`;

/** Measures the time from a new browser to the message box. */
async function start() {
  const began = performance.now();
  const page = await visit(browser, server.url);
  await page.locator('textarea').waitFor();
  const took = performance.now() - began;
  await page.context().close();
  return took;
}

/** Measures the time from a click until the newest of a chat's 5,000 messages is shown. */
async function openLong() {
  const page = await visit(browser, server.url);
  const link = page.getByRole('link', { name: 'Long' });
  await link.waitFor();
  const took = await link.evaluate(
    (el) =>
      new Promise((done) => {
        const began = performance.now();
        const seen = new MutationObserver(() => {
          if (!document.body.innerText.includes('Message 4999.')) return;
          seen.disconnect();
          requestAnimationFrame(() => done(performance.now() - began));
        });
        seen.observe(document.body, { childList: true, subtree: true });
        el.click();
      }),
  );
  await page.context().close();
  return took;
}

/** Measures the time from the first message at a new server, whose model is not loaded, to the first word of the answer. */
async function firstToken(preset) {
  const fresh = await serve(newHome(true, '', `kv_preset = "${preset}"\nctx_size = 8192`));
  const page = await visit(browser, fresh.url);
  await page.locator('textarea').fill('What is the capital of France?');
  const began = performance.now();
  await page.locator('textarea').press('Enter');
  await page.waitForFunction(() => document.querySelector('article .prose')?.textContent.trim());
  const took = performance.now() - began;
  await page.context().close();
  await fresh.stop();
  fresh.remove();
  return took;
}

/** Adds the last 1,000 tokens to an answer of 2,000 lines and watches the page's main thread. */
async function stream(text) {
  const { chats } = await server.api('POST', '/app/import', conversation('Streamed', ['Write a lot.', '']));
  stage.play(text, text.length - 4000);
  const page = await visit(browser, `${stage.url}/#/chat/${chats[0].id}`);
  await page.locator('article[data-status=running] .prose').waitFor();
  await page.waitForTimeout(1000); // until the first part of the answer is drawn
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'] });
  await page.locator('article[data-status=running]').waitFor({ state: 'detached', timeout: 60_000 });
  await page.waitForTimeout(1000); // until the code is highlighted
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  await server.api('DELETE', `/app/chats/${chats[0].id}`);
  await page.context().close();
  return longest(traceEvents);
}

/** The longest task of the main threads of all pages, in milliseconds of processor time and of wall time. */
function longest(events) {
  const thread = (e) => `${e.pid}/${e.tid}`;
  const mains = new Set(events.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map(thread));
  const tasks = events.filter((e) => e.ph === 'X' && /RunTask$/.test(e.name) && mains.has(thread(e)));
  const most = (list) => Math.round(Math.max(...list) / 1000);
  return { cpu: most(tasks.map((e) => e.tdur ?? 0)), clock: most(tasks.map((e) => e.dur)) };
}

try {
  await server.api('POST', '/app/settings', { changes: { 'engine.ctx_size': 8192 } });
  await server.api('POST', '/app/import', conversation('Long', manyMessages()));
  await server.api('POST', '/app/models/small/load');
  console.log(`${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model}, ${cpus().length} cores, ${runs} runs\n`);
  console.log('| page | median (least to most) | aim |\n|---|---|---|');
  const repeat = async (work) => {
    await work();
    const took = [];
    for (let i = 0; i < runs; i++) took.push(await work());
    return took;
  };
  row('to the message box', ms(await repeat(start)), '3 s');
  row('opening a chat of 5,000 messages', ms(await repeat(openLong)), '1 s');
  const { presets } = await server.api('GET', '/app/kv/types');
  for (const { name } of presets) row(`first token of a first chat, preset ${name}`, ms(await repeat(() => firstToken(name))), '3 s');
  const lines = Array.from({ length: 2000 }, (_, i) => `${i % 10} some words, **bold** and \`code\``);
  const code = lines.map((_, i) => (i % 12 === 11 ? '' : `\tfor i := range ${i} { fmt.Println("text", i) } // words`));
  const mixed = lines.map((l, i) => (i % 40 < 10 ? `- ${l}` : i % 40 === 10 ? '\n```go' : i % 40 === 30 ? '```\n' : i % 40 < 30 ? code[i] : l));
  for (const [name, text] of [
    ['paragraphs, lists and code', mixed.join('\n')],
    ['one list', lines.map((l) => `- ${l}`).join('\n')],
    ['one list with numbers and empty lines', lines.map((l, i) => `${i + 1}. ${l}\n`).join('\n')],
    ['one code block', `\`\`\`go\n${code.join('\n')}\n\`\`\`\n`],
    ['one table', `| a | b |\n|---|---|\n${lines.map((l) => `| ${l} | b |`).join('\n')}`],
    ['one quotation', lines.map((l) => `> ${l}\n>`).join('\n')],
    ['one paragraph', lines.join('\n')],
  ]) {
    const got = await stream(text);
    row(`dearest task while 2,000 lines stream: ${name}`, `${got.cpu} ms (${got.clock} by the clock)`, '50 ms');
  }
} finally {
  await browser.close();
  stage.close();
  await server.stop();
  server.remove();
}
