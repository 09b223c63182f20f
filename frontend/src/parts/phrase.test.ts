import { createRawSnippet, flushSync, mount, unmount } from 'svelte';
import { expect, it } from 'vitest';
import Phrase, { place } from './Phrase.svelte';

const part = (html: string) => createRawSnippet(() => ({ render: () => html }));

it('shows parts where the message has them, in any order', async () => {
  const text = `Press ${place(1)}, then ${place(0)}.${place(2)}`;
  const phrase = mount(Phrase, { target: document.body, props: { text, parts: [part('<a href="#/models">Models</a>'), part('<kbd>Enter</kbd>')] } });
  flushSync();
  expect(document.body.textContent).toBe(`Press Enter, then Models.${place(2)}`); // a mark without a part is text
  expect(document.querySelector('kbd')!.textContent).toBe('Enter');
  expect(document.querySelector('a')!.getAttribute('href')).toBe('#/models');
  await unmount(phrase);
});
