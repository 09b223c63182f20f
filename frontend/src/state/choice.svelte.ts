import { app } from './app.svelte';
import { open } from './open.svelte';
import { go } from './route.svelte';

const key = 'godwit.model';

function stored(): string {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return ''; // the window has no storage
  }
}

/** The model for the next answer. */
class Choice {
  private picked = $state(stored());

  model = $derived.by(() => {
    const has = (name: string | undefined) => !!name && app.usable.some((m) => m.name === name);
    for (const name of [open.chat?.model, this.picked, app.loaded[0]?.name, app.usable[0]?.name]) {
      if (has(name)) return name!;
    }
    return '';
  });

  pick(name: string) {
    this.picked = name;
    try {
      localStorage.setItem(key, name);
    } catch {
      // the choice is kept until the window closes
    }
  }
}

export const choice = new Choice();

app.chatWith = (name) => {
  choice.pick(name);
  go({ view: 'chat', chat: 0 });
};
