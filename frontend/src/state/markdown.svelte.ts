import type { Component } from 'svelte';

// The Markdown renderer is a third of the page's code. It is loaded separately at
// the start, so that the message box need not wait for it.
class Renderer {
  component = $state.raw<Component<{ source: string; live?: boolean }>>();

  constructor() {
    this.fetch();
  }

  /** Loads it. Loading is repeated after the server was unreachable. */
  fetch() {
    if (!this.component) import('../parts/Markdown.svelte').then(({ default: part }) => (this.component = part)).catch(() => undefined); // the text is plain until then
  }
}

export const renderer = new Renderer();
