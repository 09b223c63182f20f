// Syntax highlighting, in a separate module that is loaded with the first code
// block.
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import r from 'highlight.js/lib/languages/r';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const languages = {
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown, php, python, r, ruby,
  rust, sql, swift, typescript, xml, yaml,
};
for (const [name, definition] of Object.entries(languages)) hljs.registerLanguage(name, definition);
hljs.registerAliases(['toml'], { languageName: 'ini' });
hljs.registerAliases(['svelte', 'vue'], { languageName: 'xml' });

/** Maximum number of characters in a piece. From the first longer piece on, code stays plain. */
const longest = 50_000;

/** Parts of a code block as HTML with highlighting classes. */
export interface Coloured {
  parts: number;
  html: string;
}

/**
 * Highlights code in pieces that are as small as possible. A piece ends where no comment,
 * string or other construct is open. Yields nothing for an unknown language.
 */
export function* highlight(parts: readonly string[], lang: string): Generator<Coloured, void, void> {
  if (!hljs.getLanguage(lang)) return;
  for (let from = 0; from < parts.length; ) {
    for (let n = 1; ; n *= 2) {
      const text = parts.slice(from, from + n).join('');
      if (text.length > longest) return;
      const result = hljs.highlight(text, { language: lang, ignoreIllegals: true });
      if (from + n < parts.length && result._top && 'parent' in result._top) continue;
      const taken = Math.min(n, parts.length - from);
      yield { parts: taken, html: result.value };
      from += taken;
      break;
    }
  }
}
