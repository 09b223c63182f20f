import { Later, forget, keep, kept, places, watch, type Kept } from '../lib/kept';
import type { Attachment, Chat, Message } from '../lib/types';
import { abandoned, newWindow, windowName } from '../lib/window';
import { chats } from './chats.svelte';

const later = new Later();

// Each window has a new chat of its own; other chats are the same in all of them.
const newChat = 'new.';
const ofEdit = (m: Message) => `edit.${m.id}.${Date.parse(m.created)}`;

const ofChat = (c: Chat) => `chat.${c.id}.${Date.parse(c.created)}`;

/** Where the draft of a chat is kept; '' where there is no such chat. */
function placeOf(chat: number): string {
  if (!chat) return newChat + windowName;
  const known = chats.find(chat);
  return known ? ofChat(known) : '';
}

const joined = (a: string, b: string) => (a && b ? `${a}\n${b}` : a || b);

/** A message that is being written. */
class Draft {
  #text;
  #files;
  /** It is to be sent as soon as the answer in its chat has ended. */
  queued = $state(false);
  /** On its way to the server, which may refuse it. */
  private sending: Pick<Kept, 'text' | 'files'> | undefined;

  /** With what is kept at a place, and behind it what was written before that was known. */
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
      if (place !== this.place) return undefined; // it is kept elsewhere by now
      const { text, files = [] } = this.sending ?? { text: '' };
      return { text: joined(text, this.text), files: [...files, ...this.files] };
    });
  }

  /** Takes what another window has kept, unless something was written here at the same time. */
  follow() {
    if (later.has(this.place) || this.sending) return;
    const found = kept(this.place);
    this.#text = found?.text ?? '';
    this.#files = found?.files ?? [];
  }

  /** Has it sent and takes it back when that fails, before what was written meanwhile. */
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

  /** Moves to the chat that is there now. */
  move(chat: number) {
    keep(this.place, undefined);
    this.place = placeOf(chat);
  }
}

/** What was written and not sent. */
class Drafts {
  /** Messages that are being edited, by id. */
  edits = $state<Record<number, string>>({});
  private list = new Map<number, Draft>();
  /** Edits that were not ended when the page came up, by place. */
  private left = new Map(places('edit.').map((place) => [place, kept(place)?.text]));
  private started = false;

  constructor() {
    watch((place) => {
      for (const draft of this.list.values()) if (draft.place === place) draft.follow();
    });
  }

  /** Lets a new window continue the new chat of one that was closed. */
  async start() {
    if (this.started || !newWindow) return;
    this.started = true;
    const names = places(newChat).map((place) => place.slice(newChat.length));
    const [name] = await abandoned(names).catch(() => []);
    const mine = this.list.get(0);
    if (name === undefined || mine?.text || mine?.files.length) return;
    const found = kept(newChat + name);
    keep(newChat + name, undefined); // first: there may not be room for both
    keep(newChat + windowName, found);
    mine?.follow();
  }

  /** What is written in a chat; 0 is the chat that is not there yet. */
  of(chat: number): Draft {
    const place = placeOf(chat);
    let draft = this.list.get(chat);
    if (!draft || (place && draft.place !== place)) {
      draft = new Draft(place, draft?.place ? undefined : draft);
      this.list.set(chat, draft);
    }
    return draft;
  }

  /** Has what was written for the chat that was not there yet belong to it. */
  made(chat: number) {
    const draft = this.of(0);
    draft.move(chat);
    this.list.set(chat, draft);
    this.list.delete(0);
  }

  /** Opens the edits of messages again that were not ended. */
  recall(messages: Message[]) {
    for (const m of messages) {
      const text = this.left.get(ofEdit(m));
      if (text !== undefined) this.edits[m.id] ??= text;
      this.left.delete(ofEdit(m));
    }
  }

  /** Changes the edit of a message, or ends it. */
  edit(m: Message, text?: string) {
    if (text === undefined) delete this.edits[m.id];
    else this.edits[m.id] = text;
    const chat = placeOf(m.chat);
    later.put(ofEdit(m), () => (text === undefined ? undefined : { text, chat }));
  }

  /** Forgets what was written in a chat that was deleted. */
  drop(chat: Chat) {
    later.flush();
    this.list.delete(chat.id);
    forget(ofChat(chat));
  }
}

export const drafts = new Drafts();
