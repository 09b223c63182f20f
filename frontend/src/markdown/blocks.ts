import { Marked, type Token, type Tokens } from 'marked';
import { math } from './math';
import { renderer } from './render';
import { clean } from './sanitise';

/** One top-level block of a text. Blocks that did not change stay the same object. */
export interface Block {
  readonly kind: 'html' | 'code';
  readonly raw: string;
  /** Inert HTML of the block; empty for code. */
  readonly html: string;
  /** Of a code block: its language, its text, and whether its end has come. */
  readonly lang: string;
  readonly text: string;
  readonly closed: boolean;
}

export const marked = new Marked({ gfm: true, breaks: false, async: false });
marked.use({ renderer, extensions: math });

/**
 * A text that grows. Each update reads on from the last block, since Markdown
 * never changes a block above the one that is being written, with one exception:
 * the address of a link may come after it. finish reads the whole text again.
 */
export class Growing {
  blocks: Block[] = [];
  /** How many blocks have been turned into HTML, for tests. */
  rendered = 0;
  private source = '';
  private starts: number[] = [];

  update(source: string): Block[] {
    if (source === this.source) return this.blocks;
    if (!source.startsWith(this.source)) this.reset();
    const from = this.starts.at(-1) ?? 0;
    return this.read(source, from, Math.max(this.blocks.length - 1, 0));
  }

  finish(source: string): Block[] {
    const definitions = /^ {0,3}\[[^\]]+\]:/m.test(source);
    if (!definitions && source.startsWith(this.source)) {
      this.update(source);
      const last = this.blocks.at(-1);
      if (last && last.kind === 'code' && !last.closed) this.blocks = [...this.blocks.slice(0, -1), { ...last, closed: true }];
      return this.blocks;
    }
    this.reset();
    this.read(source, 0, 0);
    return this.blocks;
  }

  private reset() {
    this.source = '';
    this.blocks = [];
    this.starts = [];
  }

  /** Reads the text from an offset on; the blocks before the number kept stay. */
  private read(source: string, from: number, kept: number): Block[] {
    const list = marked.lexer(source.slice(from));
    const links = list.links;
    const blocks = this.blocks.slice(0, kept);
    const starts = this.starts.slice(0, kept);
    let at = from;
    for (const token of list) {
      const start = at;
      at += token.raw.length;
      if (token.type === 'space' || token.type === 'def') continue;
      const old = this.blocks[blocks.length];
      blocks.push(old && old.raw === token.raw ? old : this.block(token, links));
      starts.push(start);
    }
    this.source = source;
    this.blocks = blocks;
    this.starts = starts;
    return blocks;
  }

  private block(token: Token, links: Record<string, Pick<Tokens.Link, 'href' | 'title'>>): Block {
    this.rendered++;
    if (token.type === 'code') {
      const code = token as Tokens.Code;
      return { kind: 'code', raw: code.raw, html: '', lang: language(code.lang), text: code.text, closed: isClosed(code) };
    }
    const tokens = Object.assign([token], { links });
    return { kind: 'html', raw: token.raw, html: clean(marked.parser(tokens)), lang: '', text: '', closed: true };
  }
}

/** The first word behind a fence. */
export function language(info: string | undefined): string {
  return /^[\w+#.-]*/.exec(info ?? '')?.[0] ?? '';
}

/** Whether a code block has its last fence; indented ones have none. */
function isClosed(code: Tokens.Code): boolean {
  if (code.codeBlockStyle === 'indented') return true;
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(code.raw)?.[1];
  if (!fence) return true;
  const last = code.raw.trimEnd().split('\n').at(-1)?.trim() ?? '';
  return code.raw.includes('\n') && last.length >= fence.length && last === fence[0]!.repeat(last.length);
}

/** All blocks of a text that does not grow. */
export function blocksOf(source: string): Block[] {
  return new Growing().finish(source);
}
