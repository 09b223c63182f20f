import { describe, expect, it } from 'vitest';
import { blocksOf, Growing, type Block } from './blocks';

/** The content of a block: the HTML of its parts, or its code. */
const inner = (block: Block | undefined) => block?.parts.map((part) => part.html).join('') ?? '';
const text = (source: string) => blocksOf(source).map((b) => b.heading + inner(b)).join('\n');

describe('blocks', () => {
  it('reads what people write', () => {
    const html = text('# Title\n\nA *word* and `code`.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n');
    expect(html).toContain('<h1>Title</h1>');
    expect(html).toContain('<em>word</em>');
    expect(html).toContain('<li><p>one</p>');
    expect(html).toContain('<th>a</th>');
    expect(html).toContain('<td>1</td>');
  });

  it('keeps the lines of verse, of items and of quotes', () => {
    expect(text('Roses are red,\nviolets are blue.')).toContain('<p>Roses are red,<br>violets are blue.</p>');
    expect(text('- 1 Main Street\n  Springfield')).toContain('1 Main Street<br>Springfield');
    expect(text('> one\n> two')).toContain('one<br>two');
  });

  it('makes code blocks of fences', () => {
    const [block] = blocksOf('```go\nfunc main() {}\n```');
    expect(block).toMatchObject({ kind: 'code', lang: 'go', closed: true });
    expect(inner(block)).toBe('func main() {}');
  });

  it('knows when a fence has its end', () => {
    const growing = new Growing();
    expect(growing.update('```py\nprint(1)')[0]?.closed).toBe(false);
    expect(growing.update('```py\nprint(1)\n``')[0]?.closed).toBe(false);
    expect(growing.update('```py\nprint(1)\n```')[0]?.closed).toBe(true);
    expect(new Growing().finish('```py\nprint(1)')[0]?.closed).toBe(true);
  });

  it('takes a number and a full stop for what they say', () => {
    expect(blocksOf('1945.')[0]?.kind).toBe('html');
    expect(text('1945.')).toBe('<p>1945.</p>');
    expect(blocksOf('1. ')[0]?.kind).toBe('html');
    expect(blocksOf('1945. It ended.')[0]).toMatchObject({ kind: 'list', first: 1945 });
  });

  it('numbers lists from where they begin', () => {
    expect(blocksOf('7. a\n8. b')[0]).toMatchObject({ kind: 'list', first: 7 });
    expect(blocksOf('- a')[0]).toMatchObject({ kind: 'list', first: undefined });
  });

  it('keeps the boxes of tasks beside their words', () => {
    for (const between of ['\n', '\n\n']) {
      expect(text(`- [x] done${between}- [ ] open`)).toMatch(/<li class="task"><p><span[^>]*>☑<\/span> done<\/p>\s*<\/li>\s*<li class="task"><p><span[^>]*>☐<\/span> open<\/p>/);
    }
  });

  it('leaves money alone and finds formulas', () => {
    expect(text('It costs $5 and $6.')).not.toContain('math');
    expect(text('Here $a^2$ is.')).toContain('<span class="math" data-display="false">a^2</span>');
    expect(text('$$\nx = 1\n$$')).toContain('data-display="true"');
    expect(text('\\[ y \\] and \\( z \\)')).toContain('>z<');
    expect(text('`$a$`')).not.toContain('math');
  });

  it('finds the addresses of links that come later', () => {
    const growing = new Growing();
    growing.update('See [the page][1].\n\n');
    const blocks = growing.finish('See [the page][1].\n\n[1]: https://example.com\n');
    expect(inner(blocks[0])).toContain('href="https://example.com"');
  });
});

const shown = (blocks: Block[]) => blocks.map((b) => [b.kind, b.lang, b.first, b.heading, inner(b)]);

describe('a growing text', () => {
  const source = Array.from({ length: 40 }, (_, i) =>
    i % 5 === 0 ? `\`\`\`js\nconst a = ${i};\n\nlet b;\n\`\`\`` : i % 7 === 0 ? `- item ${i}\n- more\n\n  still the item` : `Paragraph ${i} with **words**.`,
  ).join('\n\n');

  it('ends as the whole text', () => {
    const growing = new Growing();
    for (let n = 1; n <= source.length; n += 3) growing.update(source.slice(0, n));
    expect(shown(growing.finish(source))).toEqual(shown(blocksOf(source)));
  });

  it('turns one block into HTML for each piece', () => {
    const growing = new Growing();
    let before = 0;
    let most = 0;
    for (let n = 1; n <= source.length; n += 4) {
      growing.update(source.slice(0, n));
      // A piece may end one block and start the next.
      most = Math.max(most, growing.rendered - before);
      before = growing.rendered;
    }
    expect(most).toBeLessThanOrEqual(2);
    expect(growing.rendered).toBeLessThan(source.length / 4 + 2 * growing.blocks.length);
  });

  it('keeps the blocks above as they are', () => {
    const growing = new Growing();
    const first = [...growing.update('One.\n\nTwo.\n\nThr')];
    const second = growing.update('One.\n\nTwo.\n\nThree.');
    expect(second[0]).toBe(first[0]);
    expect(second[1]).toBe(first[1]);
    expect(second[2]).not.toBe(first[2]);
  });

  it('starts again where the text is another one', () => {
    const growing = new Growing();
    growing.update('One.\n\nTwo.');
    expect(growing.update('Other.').map((b) => inner(b).trim())).toEqual(['<p>Other.</p>']);
  });
});
