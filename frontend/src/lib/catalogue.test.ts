import { parse } from 'svelte/compiler';
import { describe, expect, it } from 'vitest';
import words from '../../messages/en.json';

const sources = import.meta.glob<string>(['../**/*.svelte', '../**/*.ts', '!../**/*.test.ts', '!../paraglide/**', '!./glossary.ts', '!./types_gen.ts'], { query: '?raw', import: 'default', eager: true });
const { $schema: _, ...catalogue } = words as Record<string, string>;

/** Attributes whose text is shown or read aloud. */
const spoken = ['aria-label', 'aria-valuetext', 'title', 'placeholder', 'alt', 'label'];

interface Node {
  type: string;
  name?: string;
  data?: string;
  value?: true | Node | Node[];
  attributes?: Node[];
  [key: string]: unknown;
}

/** The words that a template shows and that are not from the catalogue. Code and the names of keyboard keys do not count. */
function own(node: unknown, inside = ''): string[] {
  if (Array.isArray(node)) return node.flatMap((n) => own(n, inside));
  if (!node || typeof node !== 'object' || typeof (node as Node).type !== 'string') return [];
  const n = node as Node;
  if (n.type === 'Text') return /[A-Za-z]{2}/.test(n.data!) && !['code', 'kbd', 'style'].includes(inside) ? [n.data!.trim()] : [];
  if (n.type === 'Attribute') return spoken.includes(n.name!) && n.value !== true ? own(n.value) : [];
  return ['nodes', 'attributes', 'fragment', 'body', 'consequent', 'alternate', 'fallback', 'pending', 'then', 'catch'].flatMap((key) => own(n[key], n.name ?? inside));
}

/** Names, which are the same in every language, and code that looks like a sentence. */
const names = ['Godwit', 'SHA-256', "'KV cache'", '`Bearer ${config.token}`', '"Props extends Record<string, unknown>"'];

/** The literals of a source that look like a sentence. */
function sentences(text: string): string[] {
  const code = text.replace(/<style>[\s\S]*<\/style>|\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->/g, '').replace(/(^|\s)\/\/ .*$/gm, '');
  return code.match(/(['"`])[A-Z][A-Za-z’]* [^'"`\n]*\1/g) ?? [];
}

describe('the catalogue of words', () => {
  it('has every key that is used, and no other', () => {
    const used = new Set(Object.values(sources).flatMap((text) => [...text.matchAll(/\bmsg\.(\w+)/g)].map((m) => m[1]!)));
    expect(used.size).toBeGreaterThan(400);
    expect([...used].filter((key) => !(key in catalogue)), 'missing').toEqual([]);
    expect(Object.keys(catalogue).filter((key) => !used.has(key)), 'unused').toEqual([]);
  });

  it('says something under every key', () => {
    for (const [key, text] of Object.entries(catalogue)) {
      expect(text.replace(/\{\w+\}/g, '').trim(), key).not.toBe('');
      expect(text, key).toBe(text.trim());
      expect(text.replace(/\{[a-z]\w*\}/g, ''), key).not.toMatch(/[{}]/);
    }
  });

  it('has every word that the page shows', () => {
    const found: string[] = [];
    for (const [path, text] of Object.entries(sources)) {
      const shown = path.endsWith('.svelte') ? own(parse(text, { modern: true }).fragment) : [];
      found.push(...[...shown, ...sentences(text)].filter((words) => !names.includes(words)).map((words) => `${path}: ${words}`));
    }
    expect(found).toEqual([]);
  });
});
