import { describe, expect, it } from 'vitest';
import { blocksOf } from './blocks';
import { clean } from './sanitise';

/** The HTML of a text. */
const html = (source: string) => blocksOf(source).map((b) => b.heading + (b.kind === 'code' ? '' : b.parts.map((part) => part.html).join(''))).join('');

/** Texts that a hostile model may write. */
const attacks = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<svg onload=alert(1)>',
  '<iframe src="https://evil.example"></iframe>',
  '<a href="javascript:alert(1)">x</a>',
  '[x](javascript:alert(1))',
  '[x](JaVaScRiPt:alert(1))',
  '[x](data:text/html;base64,PHNjcmlwdD4=)',
  '[x](vbscript:x)',
  '[x](&#106;avascript:alert(1))',
  '[x](java\nscript:alert(1))',
  '![x](https://evil.example/seen.png)',
  '![x](javascript:alert(1))',
  '![x](https://evil.example/a.png "\\" onerror=alert(1) \\"")',
  '[x](https://evil.example "\\" onclick=alert(1) \\"")',
  '<style>*{display:none}</style>',
  '<form action="https://evil.example"><input name=a></form>',
  '<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<details open ontoggle=alert(1)>',
  '```html\n<script>alert(1)</script>\n```',
  '```"><img src=x onerror=alert(1)>\nx\n```',
  '- <b onclick=alert(1)>x</b>\n\n  ```"onmouseover=alert(1)\n  x\n  ```',
  '| <img src=x onerror=alert(1)> |\n|---|\n| <script>alert(1)</script> |',
  '$<img src=x onerror=alert(1)>$',
  '$$\n<script>alert(1)</script>\n$$',
  '\\(\\href{javascript:alert(1)}{x}\\)',
  '<https://evil.example/"onclick="alert(1)>',
  'https://evil.example/<script>alert(1)</script>',
  '<!-- --><script>alert(1)</script>-->',
  '<base href="https://evil.example/">',
  '<meta http-equiv="refresh" content="0;url=https://evil.example">',
  '<link rel=stylesheet href=https://evil.example/x.css>',
  '<object data="https://evil.example"></object><embed src="https://evil.example">',
  '<div style="position:fixed;inset:0;background:url(https://evil.example)">x</div>',
  '<button formaction=javascript:alert(1)>x</button>',
  '\u0000<scr\u0000ipt>alert(1)</script>',
];

/** Everything in a tree that could run, load or style. */
function dangers(root: ParentNode): string[] {
  const found: string[] = [];
  for (const element of root.querySelectorAll('*')) {
    const tag = element.tagName.toLowerCase();
    if (/^(script|style|iframe|object|embed|link|meta|base|form|input|img|svg|math|video|audio|source|template|textarea|select)$/.test(tag)) found.push(tag);
    for (const { name, value } of element.attributes) {
      if (name.startsWith('on') || ['style', 'src', 'srcset', 'formaction', 'action', 'background', 'ping', 'id', 'name'].includes(name)) found.push(`${tag} ${name}`);
      if (name === 'href' && !/^(https?:\/\/|mailto:)/i.test(value)) found.push(`href ${value}`);
    }
  }
  return found;
}

describe('hostile text', () => {
  for (const attack of attacks) {
    it(`is inert: ${JSON.stringify(attack).slice(0, 60)}`, () => {
      const box = document.createElement('div');
      box.innerHTML = html(attack);
      expect(dangers(box)).toEqual([]);
    });
  }

  it('is shown as it was written', () => {
    const box = document.createElement('div');
    box.innerHTML = html('Use <b>bold</b> and <script>alert(1)</script> tags.');
    expect(box.textContent?.trim()).toBe('Use <b>bold</b> and <script>alert(1)</script> tags.');
  });

  it('has no way past the second lock', () => {
    const box = document.createElement('div');
    box.innerHTML = clean(attacks.join('\n'));
    expect(dangers(box)).toEqual([]);
  });

  it('opens links outside of the page', () => {
    const link = html('[x](https://example.com)');
    expect(link).toContain('target="_blank"');
    expect(link).toContain('rel="noopener noreferrer"');
  });
});
