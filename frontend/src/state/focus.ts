// Chooses where the focus goes when the focused element is removed.
import { tick } from 'svelte';

const touch = matchMedia('(pointer: coarse)');

/** Focuses the message box, except on devices that would then show a keyboard. */
export function toComposer() {
  if (!touch.matches) document.querySelector<HTMLElement>('form.composer textarea')?.focus();
}

/** Tries the names in order and focuses the message's first enabled button with that name. */
export async function toButton(message: number, ...names: string[]) {
  await tick();
  for (const name of names) {
    const button = document.querySelector<HTMLButtonElement>(`[data-message="${message}"] button[aria-label="${name}"]:not(:disabled)`);
    if (button) return button.focus();
  }
}
