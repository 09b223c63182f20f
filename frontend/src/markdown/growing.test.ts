// @vitest-environment node
import { describe, expect, it, vi } from 'vitest';
import { Growing, type Block } from './blocks';

// Texts are compared before sanitising.
vi.mock('./sanitise', () => ({ clean: (html: string) => html }));

const inner = (block: Block) => block.parts.map((part) => part.html).join('');

/** Lines of every kind, in an order that depends on a seed. */
function mixture(seed: number, n: number, formulas: boolean): string {
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const one = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)]!;
  const words = () => Array.from({ length: 1 + Math.floor(random() * 12) }, () => one(['bird', '**sea**', 'a_b', '`x`', '1.5', '$n$', '[l](https://example.com)', '*'])).join(' ');
  const line = () => one([words, words, () => '', () => '```', () => '```go', () => '    code', () => '---', () => '> ', () => '>', () => '#', () => '- -', () => '--'])();
  const start = () => one(['- ', '- ', '* ', '1. ', '2) ', '> ', '> - ', '> > ', '  ', '   - ', '    ', '| a | b |\n|---|:-:|\n| ', '| ', '- [x] ', '\t', '', '', '', ...(formulas ? ['$$\n', '\\[\n'] : [])]);
  let text = '';
  while (text.length < n) {
    const begin = start();
    for (let i = 1 + Math.floor(random() * 30 * random() ** 2); i > 0; i--) text += begin + line() + one(['\n', '\n', '\n', '\n\n']);
  }
  return text;
}

// Quotations have the same form here, whether or not they could be split.
const shown = (blocks: Block[]) =>
  blocks.map((b) => (b.kind === 'quote' ? ['html', '', undefined, '', `<blockquote>\n${inner(b)}</blockquote>\n`] : [b.kind, b.lang, b.first, b.heading, inner(b)]));

describe('a text that grows in any steps', () => {
  const seeds = Array.from({ length: 40 }, (_, i) => i + 1);

  it.each(seeds)('is at every moment what the whole text would be (%i)', (seed) => {
    const all = mixture(seed * 7919, 700, false);
    const growing = new Growing(40);
    for (let n = 1; n < all.length; n += 1 + ((n * seed) % 11)) {
      const now = growing.update(all.slice(0, n));
      expect(shown(now)).toEqual(shown(new Growing(40).update(all.slice(0, n))));
    }
  });

  it.each(seeds)('ends as the whole text (%i)', (seed) => {
    const all = mixture(seed * 104729, 3000, true);
    const growing = new Growing(100);
    for (let n = 1; n < all.length; n += 1 + ((n * seed) % 23)) growing.update(all.slice(0, n));
    expect(shown(growing.finish(all))).toEqual(shown(new Growing(100).finish(all)));
  });

  const long = (line: (i: number) => string, before = '') => before + Array.from({ length: 2000 }, (_, i) => line(i)).join('');
  it.each([
    ['list', long((i) => `- item ${i}\n`)],
    ['list', long((i) => `${i + 1}. item ${i}\n\n`)],
    ['table', long((i) => `| ${i} | b |\n`, '| a | b |\n|---|---|\n')],
    ['quote', long((i) => `> words ${i}\n>\n`)],
    ['code', long((i) => `line ${i};\n`, '```go\n')],
    ['code', long((i) => `    line ${i};\n`)],
  ])('draws one part for each piece, also of a long %s', (kind, all) => {
    const growing = new Growing();
    growing.update(all.slice(0, -400));
    let before = growing.rendered;
    let length = 0;
    for (let n = all.length - 400; n <= all.length; n += 3) {
      const blocks = growing.update(all.slice(0, n));
      expect(blocks.length).toBeLessThanOrEqual(2); // two if the text ends inside the number of a list item, before its period
      expect(blocks[0]!.kind).toBe(kind);
      // A piece may end one part and start the next.
      expect(growing.rendered - before).toBeLessThanOrEqual(2);
      before = growing.rendered;
      length = Math.max(length, ...blocks[0]!.parts.slice(-4).map((part) => part.raw.length));
    }
    expect(length).toBeLessThan(4096);
  });
});
