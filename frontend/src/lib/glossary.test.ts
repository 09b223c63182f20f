import { describe, expect, it } from 'vitest';
import words from '../../messages/en.json';
import { glossary } from './glossary';

const sources = import.meta.glob<string>(['../**/*.svelte', '../state/*.ts', '../lib/{api,files,format}.ts'], { query: '?raw', import: 'default', eager: true });

/** The text that a source shows, without its styles, comments and names that occur only in code. */
function shown(path: string, text: string): string {
  const words = text
    .replace(/<style>[\s\S]*<\/style>/, '')
    .replace(/\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->/g, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/\s\/\/ .*$/gm, '');
  return path.endsWith('.ts') ? (words.match(/'[^'\n]*'|"[^"\n]*"|`[^`]*`/g) ?? []).join('\n') : words;
}

describe('the words of the page', () => {
  it('are those of the glossary', () => {
    expect(Object.keys(sources).length).toBeGreaterThan(40);
    const found: string[] = [];
    const all = [...Object.entries(sources).map(([path, text]) => [path, shown(path, text)]), ...Object.entries(words)];
    for (const [path, text] of all) {
      const words = text!.toLowerCase();
      for (const [term, avoided] of Object.entries(glossary)) {
        for (const word of avoided) if (words.includes(word)) found.push(`${path}: “${word}”, say “${term}”`);
      }
    }
    expect(found).toEqual([]);
  });
});
