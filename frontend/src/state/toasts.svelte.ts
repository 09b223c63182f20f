import { explain } from '../lib/api';

export interface Toast {
  id: number;
  level: 'info' | 'error';
  text: string;
  action?: { label: string; run: () => void };
}

let next = 1;
export const toasts = $state<{ list: Toast[] }>({ list: [] });

function add(toast: Omit<Toast, 'id'>, ms: number) {
  const id = next++;
  toasts.list.push({ id, ...toast });
  if (toasts.list.length > 4) toasts.list.shift();
  setTimeout(() => dismiss(id), ms);
}

export function dismiss(id: number) {
  toasts.list = toasts.list.filter((t) => t.id !== id);
}

export function say(text: string, action?: Toast['action']) {
  add({ level: 'info', text, action }, action ? 8000 : 4000);
}

export function complain(err: unknown) {
  if (err instanceof DOMException && err.name === 'AbortError') return;
  add({ level: 'error', text: explain(err) }, 12_000);
}

/** Runs an action of a person and says what went wrong. It returns whether nothing did. */
export async function attempt(action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (err) {
    complain(err);
    return false;
  }
}
