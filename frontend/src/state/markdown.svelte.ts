import type { Component } from 'svelte';

// The Markdown renderer is a third of the page's code. It is loaded separately at
// the start, so that the message box need not wait for it.
class Renderer {
  component = $state.raw<Component<{ source: string; live?: boolean }>>();

  constructor() {
    this.fetch();
  }

  /** Loads the renderer. Called again if the server was unreachable. */
  fetch() {
    if (!this.component) import('../parts/Markdown.svelte').then(({ default: part }) => (this.component = part)).catch(() => undefined); // text stays plain until a later call succeeds
  }
}

export const renderer = new Renderer();
