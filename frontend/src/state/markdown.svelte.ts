import type { Component } from 'svelte';

// What draws Markdown is a third of the page. It is asked for at the start and
// comes in a part of its own; the message box does not wait for it.
class Renderer {
  component = $state.raw<Component<{ source: string; live?: boolean }>>();

  constructor() {
    this.fetch();
  }

  /** Fetches it, which is tried again when the server was away. */
  fetch() {
    if (!this.component) import('../parts/Markdown.svelte').then(({ default: part }) => (this.component = part)).catch(() => undefined); // the text is plain until then
  }
}

export const renderer = new Renderer();
