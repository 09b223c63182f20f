import { Later, forget, keep, kept, places, watch, type Kept } from '../lib/kept';
import type { Attachment, Chat, Message } from '../lib/types';
import { abandoned, newWindow, windowName } from '../lib/window';
import { chats } from './chats.svelte';

const later = new Later();

// Each window has its own new chat. All other chats are the same in every window.
const newChat = 'new.';
const ofEdit = (m: Message) => `edit.${m.id}.${Date.parse(m.created)}`;

const ofChat = (c: Chat) => `chat.${c.id}.${Date.parse(c.created)}`;

/** The new chat of this window is private. */
let hidden = false;

/** Returns the place of a chat's draft, or '' if the chat is private or does not exist. */
function placeOf(chat: number): string {
  if (!chat) return hidden ? '' : newChat + windowName;
  const known = chats.find(chat);
  return known && !known.private ? ofChat(known) : '';
}

const joined = (a: string, b: string) => (a && b ? `${a}\n${b}` : a || b);

/** A message that is being written. */
class Draft {
  #text;
  #files;
  /** The message is sent as soon as the answer in its chat has ended. */
  queued = $state(false);
  /** The draft that is being sent to the server, which may reject it. */
  private sending: Pick<Kept, 'text' | 'files'> | undefined;

  /** Loads the draft stored at a place and appends an earlier draft, which had no place. */
  constructor(
    public place: string,
    early?: Draft,
  ) {
    const { text = '', files = [] } = kept(place) ?? {};
    this.#text = $state(joined(text, early?.text ?? ''));
    this.#files = $state.raw<Attachment[]>([...files, ...(early?.files ?? [])]);
    if (early) this.keep();
  }

  get text(): string {
    return this.#text;
  }
  set text(text: string) {
    this.#text = text;
    this.keep();
  }

  get files(): Attachment[] {
    return this.#files;
  }
  set files(files: Attachment[]) {
    this.#files = files;
    this.keep();
  }

  private keep() {
    const { place } = this;
    if (!place) return;
    later.put(place, () => {
      if (place !== this.place) return undefined; // the draft is stored elsewhere by now
      const { text, files = [] } = this.sending ?? { text: '' };
      return { text: joined(text, this.text), files: [...files, ...this.files] };
    });
  }

  /**
   * Loads the draft that another window has stored, unless the user has typed here at the
   * same time.
   */
  follow() {
    if (later.has(this.place) || this.sending) return;
    const found = kept(this.place);
    this.#text = found?.text ?? '';
    this.#files = found?.files ?? [];
  }

  /**
   * Sends the message. If that fails, its text is restored before any text that the user
   * has typed in the meantime.
   */
  async send(how: (text: string, files: Attachment[]) => Promise<boolean>) {
    const { text, files } = this;
    this.sending = { text, files };
    this.text = '';
    this.files = [];
    const sent = await how(text.trim(), files);
    this.sending = undefined;
    if (!sent) {
      this.#text = joined(text, this.text);
      this.#files = [...files, ...this.files];
    }
    this.keep();
    later.flush();
  }

  /** Moves the draft to a chat's place. 0 is the new chat, whose place changes with its privacy. */
  move(chat: number) {
    keep(this.place, undefined);
    this.place = placeOf(chat);
    if (!chat) this.keep();
  }
}

/** All unsent messages. */
class Drafts {
  /** Messages that are being edited, by id. */
  edits = $state<Record<number, string>>({});
  private list = new Map<number, Draft>();
  /** Stored edits that were unfinished when the page was loaded, by place. */
  private left = new Map(places('edit.').map((place) => [place, kept(place)?.text]));
  private started = false;

  constructor() {
    watch((place) => {
      for (const draft of this.list.values()) if (draft.place === place) draft.follow();
    });
  }

  /** Lets a new window take over the draft of a new chat from a closed window. */
  async start() {
    if (this.started || !newWindow) return;
    this.started = true;
    const names = places(newChat).map((place) => place.slice(newChat.length));
    const [name] = await abandoned(names).catch(() => []);
    const mine = this.list.get(0);
    if (name === undefined || hidden || mine?.text || mine?.files.length) return;
    const found = kept(newChat + name);
    keep(newChat + name, undefined); // removed first, because storage may not have space for both
    keep(newChat + windowName, found);
    mine?.follow();
  }

  /** Returns the draft of a chat. 0 is the chat that does not exist yet. */
  of(chat: number): Draft {
    const place = placeOf(chat);
    let draft = this.list.get(chat);
    if (!draft || (place && draft.place !== place)) {
      draft = new Draft(place, draft?.place ? undefined : draft);
      this.list.set(chat, draft);
    }
    return draft;
  }

  /** Keeps the draft of the new chat out of the browser's storage, or stores it again. */
  hide(now: boolean) {
    if (now === hidden) return;
    hidden = now;
    this.of(0).move(0);
  }

  /** Moves the draft of the new chat to the chat that was created. */
  made(chat: number) {
    const draft = this.of(0);
    draft.move(chat);
    this.list.set(chat, draft);
    this.list.delete(0);
  }

  /** Restores unfinished edits of messages. */
  recall(messages: Message[]) {
    for (const m of messages) {
      const text = this.left.get(ofEdit(m));
      if (text !== undefined) this.edits[m.id] ??= text;
      this.left.delete(ofEdit(m));
    }
  }

  /** Updates the edit of a message, or ends it. */
  edit(m: Message, text?: string) {
    if (text === undefined) delete this.edits[m.id];
    else this.edits[m.id] = text;
    if (chats.find(m.chat)?.private) return;
    const chat = placeOf(m.chat);
    later.put(ofEdit(m), () => (text === undefined ? undefined : { text, chat }));
  }

  /** Deletes the draft of a deleted chat. */
  drop(chat: Chat) {
    later.flush();
    this.list.delete(chat.id);
    forget(ofChat(chat));
  }
}

export const drafts = new Drafts();
