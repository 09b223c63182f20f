// Tests that every view works with the keyboard alone, with a screen reader, and at
// a zoom of 400 %.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { faultsOfAccess, launch, leave, visit } from './browser.mjs';
import { newHome, playHub, serve } from './server.mjs';
import { furnish, views } from './views.mjs';

/** Colour scheme and window width in pixels of each tested look: all if GODWIT_TEST is all, otherwise two. */
const looks = [['light', 1280], ['dark', 420], ['dark', 1280], ['light', 420]].slice(0, process.env.GODWIT_TEST === 'all' ? 4 : 2);

let browser, hub;
const servers = []; // each with its views

before(async () => {
  browser = await launch();
  hub = await playHub();
  const server = await serve(newHome());
  servers.push({ server, views: views(await furnish(server)) });
  const empty = await serve(newHome(false), ['--hub-url', hub.url]);
  const first = async (page) => {
    await page.goto(empty.url);
    await page.getByRole('list', { name: 'Recommended models' }).getByRole('listitem').first().waitFor();
  };
  servers.push({ server: empty, views: [{ name: 'first screen', show: first }] });
});

after(async () => {
  await browser?.close();
  for (const { server } of servers) {
    await server.stop();
    server.remove();
  }
  hub?.close();
});

/** Shows every view and fails if a check finds faults there. */
async function each(options, look, check) {
  const found = [];
  for (const { server, views } of servers) {
    const page = await visit(browser, server.url, { reducedMotion: 'reduce', ...options });
    for (const { name, show } of views) {
      await show(page, server.url);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name.replaceAll(' ', '-')}-${look}.png` });
      found.push(...(await check(page)).map((fault) => `${name}: ${fault}`));
    }
    await leave(page);
  }
  assert.deepEqual(found, []);
}

describe('every view', () => {
  for (const [colorScheme, width] of looks) {
    it(`has no faults of access, ${colorScheme}, ${width} pixels wide`, () => each({ colorScheme, viewport: { width, height: 820 } }, `${width}-${colorScheme}`, faultsOfAccess));
  }

  it('fits a window of 320 by 256 pixels, which is a zoom of 400 %', () => each({ viewport: { width: 320, height: 256 } }, 'zoom', (page) => page.evaluate(tooWide)));

  it('is reached and shown by the keyboard alone', () => each({}, 'keys', walk));
});

/**
 * Describes everything that is cut off at a side or makes the page scroll sideways. Tables
 * and code may scroll in a box of their own.
 */
function tooWide() {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility({ visibilityProperty: true }) || e.closest('.hidden-text, .katex-mathml, svg')) continue;
    const { left, right, width } = e.getBoundingClientRect();
    if (width === 0 || (right <= innerWidth + 1 && left >= -1)) continue;
    let box = e.parentElement;
    while (box && !(box.scrollWidth > box.clientWidth && /auto|scroll/.test(getComputedStyle(box).overflowX)) && !box.matches('.clip')) box = box.parentElement;
    const alone = box && box.matches('.clip, pre, [role=region].scroll, .scroll[role=region], .katex-display');
    if (!alone) found.push(`${e.tagName.toLowerCase()}.${[...e.classList].join('.')} reaches from ${Math.round(left)} to ${Math.round(right)} px: ${e.textContent.trim().slice(0, 30)}`);
  }
  return found.slice(0, 5);
}

/** Marks every element that the keyboard must reach, and returns their number. */
function mark() {
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const dialog = document.querySelector('dialog[open]');
  document.activeElement?.blur?.();
  globalThis.look = (e) => {
    const looks = [];
    for (let at = e, n = 0; at && n < 4; at = at.parentElement, n++) {
      const s = getComputedStyle(at);
      looks.push([s.boxShadow, s.borderTopColor, s.borderBottomColor, s.backgroundColor, s.textDecorationLine].join());
    }
    return looks.join(';');
  };
  globalThis.groups = '[role=radiogroup], [role=toolbar], [role=menu], [role=tablist]';
  globalThis.marked = [...(dialog ?? document.body).querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(
    (e) => seen(e) && !e.disabled && e.type !== 'hidden' && !e.closest('[inert], [aria-hidden=true], [role=listbox]') && !(e.tabIndex < 0 && !e.closest(globalThis.groups)),
  );
  globalThis.marked.forEach((e) => Object.assign(e, { before: globalThis.look(e) }));
  return globalThis.marked.length;
}

/** Marks the focused element as reached, and describes what is wrong with its look. */
function reach() {
  const e = document.activeElement;
  if (!e || e === document.body) return { at: -1 };
  const at = globalThis.marked.indexOf(e);
  e.reached = true;
  const s = getComputedStyle(e);
  const outlined = s.outlineStyle !== 'none' && Number.parseFloat(s.outlineWidth) > 0 && !/, 0\)$/.test(s.outlineColor);
  const { left, right, top, bottom } = e.getBoundingClientRect();
  let opacity = 1;
  for (let up = e; up; up = up.parentElement) opacity *= Number(getComputedStyle(up).opacity);
  const name = `${e.tagName.toLowerCase()} “${(e.ariaLabel ?? e.innerText ?? '').trim().slice(0, 40) || e.id}”`;
  let fault = '';
  const caret = e.type === 'search'; // the only field of its dialog, so its caret is enough
  if (at >= 0 && !outlined && !caret && globalThis.look(e) === e.before) fault = `${name} does not show that it has the focus`;
  else if (right <= 0 || left >= innerWidth || bottom <= 0 || top >= innerHeight || opacity < 0.3) fault = `${name} has the focus and is not visible`;
  return { at, fault, group: e.closest(globalThis.groups)?.querySelectorAll('button:not(:disabled), [tabindex]').length ?? 0 };
}

/** Goes through a view by Tab, and by arrow keys within groups. */
async function walk(page) {
  const n = await page.evaluate(mark);
  const faults = new Set();
  const visited = new Set();
  const press = async (key) => {
    await page.keyboard.press(key);
    await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime < 1000).map((a) => a.finished))); // waits for elements that fade in
  };
  const left = () => page.evaluate(() => globalThis.marked.filter((e) => !e.reached && e.isConnected && e.checkVisibility()).map((e) => `${e.tagName.toLowerCase()} “${(e.ariaLabel ?? e.innerText ?? '').trim().slice(0, 40) || e.id}” is not reached`));
  for (let i = 0; i < 2 * n + 10; i++) {
    await press('Tab');
    let now = await page.evaluate(reach);
    if (now.fault) faults.add(now.fault);
    if (now.group > 1 && !visited.has(now.at)) {
      for (let k = 0; k < now.group; k++) {
        visited.add(now.at);
        await press('ArrowRight');
        now = await page.evaluate(reach);
        if (now.fault) faults.add(now.fault);
      }
      visited.add(now.at);
    }
    if (i >= n && (await left()).length === 0) break;
  }
  return [...faults, ...(await left())];
}
