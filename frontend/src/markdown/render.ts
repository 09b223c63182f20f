import type { RendererObject, Token, Tokens } from 'marked';
import * as msg from '../paraglide/messages.js';

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Reports whether a link may lead to an address. */
export function safeLink(href: string): boolean {
  return /^(?:https?:\/\/|mailto:)/i.test(href.trim());
}

// Model output is treated as text. HTML in it is shown as written. Images become
// links, because loading an image would reveal to the image's server that the user
// has seen the message. Links lead only to the web or to a mail program.
export const renderer: RendererObject = {
  html({ text, block }) {
    return block ? `<p class="raw">${escape(text.trimEnd())}</p>` : escape(text);
  },
  link({ href, title, tokens }) {
    const text = this.parser.parseInline(tokens);
    if (!safeLink(href)) return `${text} <span class="address">(${escape(href)})</span>`;
    return `<a href="${escape(href)}"${title ? ` title="${escape(title)}"` : ''} target="_blank" rel="noopener noreferrer">${text}</a>`;
  },
  image({ href, text }) {
    const name = escape(text || 'image');
    if (!safeLink(href)) return `<span class="image">${name}</span>`;
    return `<a class="image" href="${escape(href)}" target="_blank" rel="noopener noreferrer">${name}</a>`;
  },
  // A blank line that arrives later makes a whole list loose. So that items that
  // are already rendered stay valid, the text of an item is a paragraph in tight
  // lists too. Tight and loose lists look the same.
  listitem({ tokens, task }) {
    const box = tokens[0]?.type === 'checkbox' ? [tokens[0]] : [];
    return `<li${task ? ' class="task"' : ''}>${this.parser.parse(tokens.slice(box.length).map((token, i) => paragraph(token, i === 0 ? box : [])))}</li>\n`;
  },
  checkbox({ checked }) {
    return `<span class="box" role="img" aria-label="${checked ? 'done' : 'open'}">${checked ? '☑' : '☐'}</span> `;
  },
  code({ text, lang }) {
    const name = escape(/^[\w+#.-]*/.exec(lang ?? '')?.[0] ?? '');
    return (
      `<figure class="code"><figcaption><span>${name}</span><button type="button" data-copy="">${escape(msg.copy())}</button></figcaption>` +
      `<pre tabindex="0"><code>${escape(text)}</code></pre></figure>`
    );
  },
  table(token) {
    const cell = (c: (typeof token.header)[number], tag: string) =>
      `<${tag}${c.align ? ` align="${c.align}"` : ''}>${this.parser.parseInline(c.tokens)}</${tag}>`;
    const row = (cells: typeof token.header, tag: string) => `<tr>${cells.map((c) => cell(c, tag)).join('')}</tr>`;
    return (
      `<div class="scroll" tabindex="0" role="region" aria-label="${escape(msg.markdown_table())}"><table><thead>${row(token.header, 'th')}</thead>` +
      `<tbody>${token.rows.map((r) => row(r, 'td')).join('')}</tbody></table></div>`
    );
  },
};

/** Returns the text of an item as a paragraph, with a prefix. */
function paragraph(token: Token, before: Token[]): Token {
  if (token.type !== 'text' && token.type !== 'paragraph') return token;
  return { ...token, type: 'paragraph', tokens: [...before, ...((token as Tokens.Text).tokens ?? [])] };
}
