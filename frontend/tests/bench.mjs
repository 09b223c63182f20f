// Measures the page on the real server with the real small model and prints a
// table: GODWIT_BIN=../build/bin/godwit node tests/bench.mjs
import { cpus } from 'node:os';
import { launch, visit } from './browser.mjs';
import { conversation, manyMessages, newHome, serve } from './server.mjs';

const runs = Number(process.env.RUNS ?? 5);
const browser = await launch();
const server = await serve(newHome());
const row = (what, got, aim) => console.log(`| ${what} | ${got} | ${aim} |`);
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const ms = (list) => `${Math.round(median(list))} ms (${Math.round(Math.min(...list))} to ${Math.round(Math.max(...list))})`;

/** How long it takes from nothing to the message box. */
async function start() {
  const began = performance.now();
  const page = await visit(browser, server.url);
  await page.locator('textarea').waitFor();
  const took = performance.now() - began;
  await page.context().close();
  return took;
}

/** How long the newest message of a chat of 5,000 takes to show, from the click. */
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

/** Goes on with an answer of 2,000 lines and watches the page's main thread. */
async function stream(answer) {
  const { chats } = await server.api('POST', '/app/import', conversation('Streamed', ['Go on counting.', answer]));
  const page = await visit(browser, `${server.url}/#/chat/${chats[0].id}`);
  await page.getByRole('button', { name: 'Continue' }).waitFor();
  await page.waitForTimeout(1000); // the old part is drawn
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'] });
  await page.getByRole('button', { name: 'Continue' }).click();
  const article = page.locator('article:not(.mine)').last();
  await page.waitForFunction(() => document.querySelector('article:not(.mine)')?.dataset.status === 'running');
  await page.waitForFunction(() => document.querySelector('article:not(.mine)')?.dataset.status !== 'running', undefined, { timeout: 180_000 });
  await page.waitForTimeout(1000); // colours and figures come behind it
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const stats = (await article.innerText()).match(/([\d,.]+) tokens\/s · ([\d,]+) tokens/);
  await server.api('DELETE', `/app/chats/${chats[0].id}`);
  await page.context().close();
  return { ...longest(traceEvents), stats: stats ? stats[0] : 'no rate shown' };
}

/** The dearest task of the pages' main threads: milliseconds of the processor, and of the clock. */
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
  const lines = Array.from({ length: 2000 }, (_, i) => `${i % 10}`);
  const mixed = lines.map((l, i) => (i % 40 < 10 ? `- ${l}` : i % 40 === 10 ? '\n```' : i % 40 === 30 ? '```\n' : l));
  for (const [name, answer] of [
    ['paragraphs, lists and code of 2,000 lines', mixed.join('\n')],
    ['2,000 list items', lines.map((l) => `- ${l}`).join('\n')],
    ['a code block of 2,000 lines', '```go\n' + lines.join('\n')],
    ['a table of 1,000 rows', '| n |\n|---|\n' + lines.slice(0, 1000).map((l) => `| ${l} |`).join('\n')],
  ]) {
    const got = await stream(answer + '\n');
    row(`dearest task while streaming into ${name}`, `${got.cpu} ms of CPU, ${got.clock} ms by the clock; ${got.stats}`, '50 ms');
  }
} finally {
  await browser.close();
  await server.stop();
  server.remove();
}
