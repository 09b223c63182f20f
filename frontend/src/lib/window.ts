// Identifies this window among the open ones.
import { desktop } from './api';

const key = 'godwit.window';
const lock = (name: string) => `godwit.window.${name}`;

/** The name that this window had before it was reloaded. */
function before(): string | null {
  try {
    const name = sessionStorage.getItem(key);
    sessionStorage.removeItem(key); // a duplicate of this window gets a name of its own
    addEventListener('pagehide', () => sessionStorage.setItem(key, windowName));
    return name;
  } catch {
    return null;
  }
}

/** Stores a value for this window until it is closed. */
export function remember(key: string, value: object) {
  try {
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // the value is not stored and is lost when the page is reloaded
  }
}

export function recall<T>(key: string): T | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? '') as T;
  } catch {
    return undefined;
  }
}

const old = before();
export const windowName = old ?? Math.random().toString(36).slice(2);
export const newWindow = old === null;
void navigator.locks?.request(lock(windowName), () => new Promise(() => {})).catch(() => undefined);

/** Returns the names that do not belong to an open window. */
export async function abandoned(names: string[]): Promise<string[]> {
  if (!navigator.locks) return desktop() ? names : []; // the program has one window
  const { held } = await navigator.locks.query();
  const open = new Set(held?.map((l) => l.name));
  return names.filter((name) => !open.has(lock(name)));
}
