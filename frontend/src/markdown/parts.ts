import { Marked, type Token, type Tokens } from 'marked';
import { math } from './math';
import { escape, renderer } from './render';
import { clean } from './sanitise';

// Line breaks are kept: small models write verse and addresses without the two
// spaces that Markdown requires.
export const marked = new Marked({ gfm: true, breaks: true, async: false });
marked.use({ renderer, extensions: math });

/** The unit of rendering. The last part is rendered again whenever text arrives. */
export interface Part {
  readonly raw: string;
  /** Inert HTML. For a list, only its items; for a table, only its rows; for code, the plain text. */
  readonly html: string;
}

/** The properties of a block, without its parts. */
export interface Frame {
  readonly kind: 'html' | 'code' | 'list' | 'table' | 'quote';
  /** Language of a code block; empty for other blocks. */
  readonly lang: string;
  readonly closed: boolean;
  /** First number of a numbered list. */
  readonly first: number | undefined;
  /** HTML of a table's header; empty for other blocks. */
  readonly heading: string;
}

/** Where a part begins in the source of its block, and how it is rendered. */
export interface Cut {
  readonly at: number;
  readonly raw: string;
  readonly html: () => string;
}

/**
 * A block that is split so that each part can be parsed without the previous parts. head is
 * the text that must precede such a part: the fence of a code block, or the first lines of
 * a table.
 */
export interface Split {
  readonly frame: Frame;
  readonly head: string;
  readonly cuts: readonly Cut[];
}

/** Splits a block. A part ends at the first possible place after the given number of characters. */
export function split(token: Token, enough: number): Split {
  switch (token.type) {
    case 'code':
      return code(token as Tokens.Code, enough);
    case 'list':
      return list(token as Tokens.List, enough);
    case 'table':
      return table(token as Tokens.Table, enough) ?? whole(token);
    case 'blockquote':
      return quote(token as Tokens.Blockquote, enough) ?? whole(token);
  }
  return whole(token);
}

const plain = { lang: '', closed: true, first: undefined, heading: '' };
const draw = (...tokens: Token[]) => clean(marked.parser(tokens));

function whole(token: Token): Split {
  return { frame: { ...plain, kind: 'html' }, head: '', cuts: [{ at: 0, raw: token.raw, html: () => draw(token) }] };
}

/**
 * Joins adjacent tokens into parts. A part is complete once ends returns true. The first
 * part begins at the given offset.
 */
function gather<T extends { raw: string }>(all: readonly T[], at: number, ends: (one: T, size: number) => boolean) {
  const groups: { at: number; raw: string; of: T[] }[] = [];
  let open = false;
  for (const one of all) {
    const last = groups.at(-1);
    if (open && last) {
      last.of.push(one);
      last.raw += one.raw;
    } else {
      groups.push({ at: last ? last.at + last.raw.length : at, raw: one.raw, of: [one] });
    }
    open = !ends(one, groups.at(-1)!.raw.length);
  }
  return groups;
}

const longer = (enough: number) => (_: unknown, size: number) => size >= enough;

function list(token: Tokens.List, enough: number): Split {
  // An answer such as "1984." is not an empty list.
  if (token.ordered && token.items.length === 1 && token.items[0]!.text.trim() === '') {
    return { frame: { ...plain, kind: 'html' }, head: '', cuts: [{ at: 0, raw: token.raw, html: () => `<p>${escape(token.raw.trim())}</p>` }] };
  }
  const cuts = gather(token.items, 0, longer(enough)).map(({ at, raw, of }) => ({ at, raw, html: () => between(draw({ ...token, items: of }), '>', '</') }));
  return { frame: { ...plain, kind: 'list', first: token.ordered ? Number(token.start) : undefined }, head: '', cuts };
}

/** Splits a text into lines including their line breaks. */
const lines = (text: string) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

function table(token: Tokens.Table, enough: number): Split | undefined {
  const [names = '', rule = '', ...rows] = lines(token.raw);
  if (rows.length !== token.rows.length) return undefined;
  const head = names + (rule.endsWith('\n') ? rule : `${rule}\n`);
  const all = rows.map((raw, i) => ({ raw, cells: token.rows[i]! }));
  return {
    frame: { ...plain, kind: 'table', heading: between(draw({ ...token, rows: [] }), '<thead>', '</thead>') },
    head,
    cuts: gather(all, head.length, longer(enough)).map(({ at, raw, of }) => ({
      at,
      raw,
      html: () => between(draw({ ...token, rows: of.map((row) => row.cells) }), '<tbody>', '</tbody>'),
    })),
  };
}

// A quotation is split after an empty line, if the next line begins with ">".
function quote(token: Tokens.Blockquote, enough: number): Split | undefined {
  const source = lines(token.raw);
  const text = token.tokens.reduce((all, inner) => all + inner.raw, '');
  if (text !== token.text || source.length !== text.split('\n').length) return undefined;
  const all: { raw: string; tokens: Token[] }[] = [];
  let line = 0;
  let behind = true; // the previous block is an empty line
  let read = '';
  for (const inner of token.tokens) {
    if (all.length === 0 || (behind && /^ {0,3}>/.test(source[line] ?? ''))) all.push({ raw: '', tokens: [] });
    const now = all.at(-1)!;
    now.tokens.push(inner);
    read += inner.raw;
    const end = inner === token.tokens.at(-1) ? source.length : read.split('\n').length - 1;
    now.raw += source.slice(line, end).join('');
    line = end;
    behind = inner.type === 'space';
  }
  const cuts = gather(all, 0, longer(enough)).map(({ at, raw, of }) => ({ at, raw, html: () => draw(...of.flatMap((block) => block.tokens)) }));
  return { frame: { ...plain, kind: 'quote' }, head: '', cuts };
}

// Code is split after an empty line, or after any line once a part is very long. No
// part starts with an empty line, because an indented code block cannot.
function code(token: Tokens.Code, enough: number): Split {
  const fenced = token.codeBlockStyle !== 'indented';
  const source = lines(token.raw);
  const fence = fenced ? (source.shift() ?? '') : '';
  const head = !fenced || fence.endsWith('\n') ? fence : `${fence}\n`;
  const text = lines(token.text);
  const all = text.map((line, i) => ({ line, raw: source[i] ?? '', next: text[i + 1] ?? '' }));
  const ends = (one: { line: string; next: string }, size: number) =>
    one.next.trim() !== '' && (size >= 3 * enough || (size >= enough && one.line.trim() === ''));
  return {
    frame: { ...plain, kind: 'code', lang: language(token.lang), closed: !fenced || isClosed(token.raw) },
    head,
    cuts: gather(all, head.length, ends).map(({ at, of }) => {
      const raw = of.map((one) => one.line).join('');
      return { at, raw, html: () => raw };
    }),
  };
}

/** Returns the first word after a fence. */
function language(info: string | undefined): string {
  return /^[\w+#.-]*/.exec(info ?? '')?.[0] ?? '';
}

/** Reports whether fenced code has its closing fence. */
function isClosed(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return true;
  const last = raw.trimEnd().split('\n').at(-1)?.trim() ?? '';
  return raw.includes('\n') && last.length >= fence.length && last === fence[0]!.repeat(last.length);
}

/** Returns the text between the first occurrence of one text and the last occurrence of another. */
function between(html: string, from: string, to: string): string {
  const start = html.indexOf(from);
  return start < 0 ? '' : html.slice(start + from.length, html.lastIndexOf(to));
}
