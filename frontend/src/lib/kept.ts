// What was typed and not sent, in the storage of the browser, so that it outlives the
// page. A place is the new chat of a window, a chat, or a message that is edited; the
// time when that was made is a part of it, for another folder of data has the same ids.
import type { Attachment } from './types';

export interface Kept {
  text: string;
  files?: Attachment[];
  /** The place of the chat that it is an edit in. */
  chat?: string;
}

const prefix = 'godwit.draft.';
/** Characters of one draft and of all; browsers hold 5 million. */
export const largest = 500_000;
export const room = 2_000_000;
/** Drafts that are held. */
export const most = 100;

/** Reads what is kept at a place. */
export function kept(place: string): Kept | undefined {
  try {
    const found = localStorage.getItem(prefix + place) ?? '';
    return JSON.parse(found.slice(found.indexOf(' ') + 1)) as Kept;
  } catch {
    return undefined; // nothing, or not ours
  }
}

/** Keeps a draft at a place, or takes it away. Of too many the oldest are forgotten. */
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
    // it lasts until the window closes
  }
}

/** A draft with its time before it; without its files where they take too much, '' where it does itself. */
function packed(draft: Kept): string {
  const { files, ...bare } = draft;
  for (const form of files?.length ? [draft, bare] : [bare]) {
    const text = `${Date.now()} ${JSON.stringify(form)}`;
    if (text.length <= largest) return text;
  }
  return '';
}

/** What is kept, the newest first. */
function entries(): { place: string; at: number; size: number }[] {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  const all = keys.map((key) => {
    const text = localStorage.getItem(key) ?? '';
    return { place: key.slice(prefix.length), at: Number.parseInt(text, 10) || 0, size: text.length };
  });
  return all.sort((a, b) => b.at - a.at);
}

/** The places of a kind that something is kept at, the newest first. */
export function places(kind: string): string[] {
  try {
    return entries().map((e) => e.place).filter((place) => place.startsWith(kind));
  } catch {
    return []; // a window without storage
  }
}

/** Forgets what is kept at the place of a chat that was deleted, and the edits in it. */
export function forget(chat: string) {
  for (const place of places('')) if (place === chat || kept(place)?.chat === chat) keep(place, undefined);
}

/** Has fn told of each place that another window changed. */
export function watch(fn: (place: string) => void) {
  addEventListener('storage', (event) => {
    if (event.key?.startsWith(prefix)) fn(event.key.slice(prefix.length));
  });
}

/** Writes a moment after the first of some changes, and when the page goes. */
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

  /** Writes what waits now. */
  flush() {
    clearTimeout(this.timer);
    for (const [place, draft] of this.waits) keep(place, draft());
    this.waits.clear();
  }
}
