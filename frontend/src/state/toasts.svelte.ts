// Results of actions. Successes are shown for a few seconds. An error stays at
// its place until the user dismisses it, retries the action or goes to another
// view.
import { explain } from '../lib/api';

export interface Toast {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

let next = 1;
export const toasts = $state<{ list: Toast[] }>({ list: [] });

export function dismiss(id: number) {
  toasts.list = toasts.list.filter((t) => t.id !== id);
}

export function say(text: string, action?: Toast['action']) {
  const id = next++;
  toasts.list.push({ id, text, action });
  if (toasts.list.length > 2) toasts.list.shift();
  setTimeout(() => dismiss(id), action ? undoTime : 4000);
}

/** How long an action can be undone, in milliseconds. */
export const undoTime = 6000;

/** The visible errors by place. '' is the top of the page. */
export const troubles = $state<{ at: Record<string, string> }>({ at: {} });

/** How many visible components show the errors of a place, by place. */
const places: Record<string, number> = {};

/**
 * Registers a component that shows the errors of a place, until the returned function is
 * called.
 */
export function showing(at: string): () => void {
  places[at] = (places[at] ?? 0) + 1;
  return () => void (places[at]! -= 1);
}

export function complain(err: unknown, at = '') {
  if (err instanceof DOMException && err.name === 'AbortError') return;
  troubles.at[places[at] ? at : ''] = explain(err);
}

export function clear(at = '') {
  delete troubles.at[at];
}

addEventListener('hashchange', () => (troubles.at = {}));

/** Runs a user's action and shows an error at a place. Returns whether the action succeeded. */
export async function attempt(action: () => Promise<unknown>, at = ''): Promise<boolean> {
  clear(at);
  try {
    await action();
    return true;
  } catch (err) {
    complain(err, at);
    return false;
  }
}
