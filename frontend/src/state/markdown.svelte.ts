import type { Component } from 'svelte';

// What draws Markdown is a third of the page. It is asked for at the start and
// comes in a part of its own; the message box does not wait for it.
class Renderer {
  component = $state.raw<Component<{ source: string; live?: boolean }>>();

  constructor() {
    void import('../parts/Markdown.svelte').then((part) => (this.component = part.default));
  }
}

export const renderer = new Renderer();
