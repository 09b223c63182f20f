import type { Token } from 'marked';
import { marked, split, type Cut, type Frame, type Part } from './parts';

/** One top-level block of a text. Blocks and parts that did not change stay the same objects. */
export interface Block extends Frame {
  readonly parts: readonly Part[];
}

/**
 * Where a block and its parts begin in the text, and the text needed to parse a part
 * separately.
 */
interface Place {
  readonly start: number;
  readonly head: string;
  readonly parts: readonly number[];
}

/**
 * A growing text. Each update continues parsing at the last part of the last block, because
 * in Markdown, later text does not change earlier blocks. finish handles the two exceptions:
 * the address of a link may follow the link, and a formula may contain empty lines.
 */
export class Growing {
  blocks: Block[] = [];
  /** How many parts have been turned into HTML, for tests. */
  rendered = 0;
  private source = '';
  private places: Place[] = [];

  /** size is the approximate number of characters in a part. */
  constructor(private readonly size = 1024) {}

  update(text: string): Block[] {
    const source = text.replace(/\r\n?/g, '\n');
    if (source === this.source) return this.blocks;
    if (!source.startsWith(this.source)) this.reset();
    const from = this.base();
    this.source = source;
    if (!this.extend(from)) this.read(from);
    return this.blocks;
  }

  finish(text: string): Block[] {
    if (/^ {0,3}(?:\[[^\]]+\]:|\$\$|\\\[)/m.test(text)) this.reset();
    this.update(text);
    const last = this.blocks.at(-1);
    if (last && !last.closed) this.blocks = [...this.blocks.slice(0, -1), { ...last, closed: true }];
    return this.blocks;
  }

  private reset() {
    this.source = '';
    this.blocks = [];
    this.places = [];
  }

  /**
   * The block at which to start parsing. The first two lines of a block decide whether it
   * is a separate block. For example, "1" becomes an item of the list above once a period
   * follows it. Until both lines are complete, the block above is parsed again too.
   */
  private base(): number {
    const last = this.places.length - 1;
    const start = this.places[last]?.start ?? 0;
    const first = this.source.indexOf('\n', start);
    const decided = first >= 0 && this.source.indexOf('\n', first + 1) >= 0;
    return Math.max(0, decided ? last : last - 1);
  }

  /** Continues parsing at the last part of a block if the new text still belongs to the block. */
  private extend(from: number): boolean {
    const block = this.blocks[from];
    const place = this.places[from];
    const at = place?.parts.at(-1);
    if (!block || !place || at === undefined || place.parts.length < 2) return false;
    const [first, ...rest] = marked.lexer(place.head + this.source.slice(at));
    if (!first) return false;
    const more = split(first, this.size);
    if (more.frame.kind !== block.kind || more.head !== place.head || (more.frame.first === undefined) !== (block.first === undefined)) return false;
    const origin = at - place.head.length;
    const old = this.cutOff(from + 1);
    const kept = block.parts.slice(0, -1);
    this.blocks[from] = { ...block, closed: more.frame.closed, parts: [...kept, ...this.draw(more.cuts, block.parts.slice(-1))] };
    this.places[from] = { ...place, parts: [...place.parts.slice(0, -1), ...more.cuts.map((cut) => cut.at + origin)] };
    this.add(rest, origin + first.raw.length, old);
    return true;
  }

  /** Parses everything from a block on. */
  private read(from: number) {
    const start = this.places[from]?.start ?? 0;
    this.add(marked.lexer(this.source.slice(start)), start, this.cutOff(from));
  }

  private cutOff(from: number): Block[] {
    const old = this.blocks.slice(from);
    this.blocks = this.blocks.slice(0, from);
    this.places = this.places.slice(0, from);
    return old;
  }

  /** Adds blocks that begin at an offset. Unchanged blocks in old are reused. */
  private add(tokens: readonly Token[], at: number, old: Block[]) {
    for (const token of tokens) {
      const start = at;
      at += token.raw.length;
      if (token.type === 'space' || token.type === 'def') continue;
      const { frame, head, cuts } = split(token, this.size);
      const before = old.shift();
      const parts = this.draw(cuts, before?.kind === frame.kind ? before.parts : []);
      this.blocks.push(same(before, frame, parts) ? before : { ...frame, parts });
      this.places.push({ start, head, parts: cuts.map((cut) => cut.at + start) });
    }
  }

  /** Renders parts. An old part with the same text is reused. */
  private draw(cuts: readonly Cut[], old: readonly Part[]): Part[] {
    return cuts.map((cut, i) => {
      const before = old[i];
      if (before?.raw === cut.raw) return before;
      this.rendered++;
      return { raw: cut.raw, html: cut.html() };
    });
  }
}

function same(old: Block | undefined, frame: Frame, parts: readonly Part[]): old is Block {
  if (!old || old.parts.length !== parts.length || old.parts.some((part, i) => part !== parts[i])) return false;
  return old.kind === frame.kind && old.lang === frame.lang && old.closed === frame.closed && old.first === frame.first && old.heading === frame.heading;
}

/** Returns all blocks of a complete text. */
export function blocksOf(source: string): Block[] {
  return new Growing().finish(source);
}
