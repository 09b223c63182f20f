// Keeps unsent text (drafts) in the browser's storage, so that it survives closing
// the page. The place of a draft is a window's new chat, an existing chat, or an
// edited message. The places of chats and messages include their creation times,
// because another data folder may have the same ids.
import type { Attachment } from './types';

export interface Kept {
  text: string;
  files?: Attachment[];
  /** Place of the edited message's chat; set for edits only. */
  chat?: string;
}

const prefix = 'godwit.draft.';
/** Maximum number of characters in one draft. */
export const largest = 500_000;
/** Maximum number of characters in all drafts together. Browsers store 5 million characters. */
export const room = 2_000_000;
/** Maximum number of stored drafts. */
export const most = 100;

/** Reads the draft stored at a place. */
export function kept(place: string): Kept | undefined {
  try {
    const found = localStorage.getItem(prefix + place) ?? '';
    return JSON.parse(found.slice(found.indexOf(' ') + 1)) as Kept;
  } catch {
    return undefined; // nothing is stored, or this page did not write it
  }
}

/**
 * Stores a draft at a place, or removes it. If there are too many drafts, the oldest are
 * deleted.
 */
export function keep(place: string, draft: Kept | undefined) {
  const text = draft && (draft.text || draft.files?.length) ? packed(draft) : '';
  try {
    if (text) localStorage.setItem(prefix + place, text);
    else localStorage.removeItem(prefix + place);
    let held = 0;
    for (const [n, old] of entries().entries()) {
      held += old.size;
      if (n >= most || held > room) localStorage.removeItem(prefix + old.place);
    }
  } catch {
    // the draft is not stored and is lost when the window closes
  }
}

/**
 * Encodes the current time, followed by the draft. Leaves out all files if the draft would be too large with them, and
 * returns '' if the draft itself is too large.
 */
function packed(draft: Kept): string {
  const { files, ...bare } = draft;
  for (const form of files?.length ? [draft, bare] : [bare]) {
    const text = `${Date.now()} ${JSON.stringify(form)}`;
    if (text.length <= largest) return text;
  }
  return '';
}

/** Returns all stored drafts, newest first. */
function entries(): { place: string; at: number; size: number }[] {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  const all = keys.map((key) => {
    const text = localStorage.getItem(key) ?? '';
    return { place: key.slice(prefix.length), at: Number.parseInt(text, 10) || 0, size: text.length };
  });
  return all.sort((a, b) => b.at - a.at);
}

/** Returns the places with a given prefix that have a stored draft, newest first. */
export function places(kind: string): string[] {
  try {
    return entries().map((e) => e.place).filter((place) => place.startsWith(kind));
  } catch {
    return []; // the window has no storage
  }
}

/** Deletes the draft of a deleted chat, and the drafts of edited messages in that chat. */
export function forget(chat: string) {
  for (const place of places('')) if (place === chat || kept(place)?.chat === chat) keep(place, undefined);
}

/** Calls fn for each place that another window has changed. */
export function watch(fn: (place: string) => void) {
  addEventListener('storage', (event) => {
    if (event.key?.startsWith(prefix)) fn(event.key.slice(prefix.length));
  });
}

/** Saves drafts a moment after the first of several changes, and when the page closes. */
export class Later {
  private waits = new Map<string, () => Kept | undefined>();
  private timer = 0;

  constructor() {
    addEventListener('pagehide', () => this.flush());
    document.addEventListener('visibilitychange', () => this.flush());
  }

  put(place: string, draft: () => Kept | undefined) {
    if (this.waits.size === 0) this.timer = window.setTimeout(() => this.flush(), 300);
    this.waits.set(place, draft);
  }

  has(place: string): boolean {
    return this.waits.has(place);
  }

  /** Saves pending changes now. */
  flush() {
    clearTimeout(this.timer);
    for (const [place, draft] of this.waits) keep(place, draft());
    this.waits.clear();
  }
}
