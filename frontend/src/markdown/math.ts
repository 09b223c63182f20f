import type { TokenizerAndRendererExtension, Tokens } from 'marked';
import { escape } from './render';

interface Maths extends Tokens.Generic {
  type: 'mathBlock' | 'mathInline';
  text: string;
  display: boolean;
}

// KaTeX renders these placeholders later. Until then, the source is shown.
function render(token: Tokens.Generic): string {
  const { text, display } = token as Maths;
  const tag = display ? 'div' : 'span';
  return `<${tag} class="math" data-display="${display}">${escape(text)}</${tag}>`;
}

const block: TokenizerAndRendererExtension = {
  name: 'mathBlock',
  level: 'block',
  start: (src) => /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(src)?.index,
  tokenizer(src) {
    const found = /^ {0,3}(?:\$\$((?:[^$\\]|\\[^]|\$(?!\$))+?)\$\$|\\\[([^]+?)\\\])[ \t]*(?:\n|$)/.exec(src);
    if (!found) return undefined;
    return { type: 'mathBlock', raw: found[0], text: (found[1] ?? found[2] ?? '').trim(), display: true };
  },
  renderer: render,
};

const inline: TokenizerAndRendererExtension = {
  name: 'mathInline',
  level: 'inline',
  start: (src) => /\$|\\[([]/.exec(src)?.index,
  tokenizer(src) {
    const double = /^\$\$((?:[^$\\\n]|\\.)+?)\$\$/.exec(src) ?? /^\\\[((?:[^\n]|\n(?!\n))+?)\\\]/.exec(src);
    if (double) return { type: 'mathInline', raw: double[0], text: double[1]!.trim(), display: true };
    // "$5 and $6" is money. Between its dollar signs, a formula neither begins nor
    // ends with a space. No digit follows the second dollar sign.
    const single = /^\$(?![\s$])((?:[^$\\\n]|\\.)*?[^\s$\\]|(?:[^$\\\n]|\\.)*?\\.)\$(?!\d)/.exec(src) ?? /^\\\(((?:[^\n]|\n(?!\n))+?)\\\)/.exec(src);
    if (single) return { type: 'mathInline', raw: single[0], text: single[1]!.trim(), display: false };
    return undefined;
  },
  renderer: render,
};

export const math = [block, inline];

/** Maximum length of a rendered formula in characters. A longer one is shown as source. */
const longest = 10_000;

/** Renders all formulas below an element. */
export async function draw(root: Element): Promise<void> {
  const found = [...root.querySelectorAll<HTMLElement>('.math:not([data-drawn])')];
  if (found.length === 0) return;
  const katex = await import('./katex').then(
    (part) => part.default,
    () => undefined, // the server has just stopped, so formulas are shown as source
  );
  if (!katex) return;
  for (const element of found) {
    const source = element.textContent ?? '';
    element.dataset.drawn = '';
    if (source.length > longest) continue;
    katex.render(source, element, {
      displayMode: element.dataset.display === 'true',
      throwOnError: false,
      trust: false,
      strict: 'ignore',
      maxExpand: 200,
      maxSize: 40,
    });
  }
}
