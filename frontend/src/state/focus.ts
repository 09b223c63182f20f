// Where the keyboard goes when what it was on is taken away.
import { tick } from 'svelte';

const touch = matchMedia('(pointer: coarse)');

/** Focuses the message box, except on a screen that would then show a keyboard. */
export function toComposer() {
  if (!touch.matches) document.querySelector<HTMLElement>('form.composer textarea')?.focus();
}

/** Goes to the first button of a message that is there and has one of these names. */
export async function toButton(message: number, ...names: string[]) {
  await tick();
  for (const name of names) {
    const button = document.querySelector<HTMLButtonElement>(`[data-message="${message}"] button[aria-label="${name}"]:not(:disabled)`);
    if (button) return button.focus();
  }
}
