import { get, post, remove } from '../lib/api';
import { stream } from '../lib/sse';
import type { Attachment, Chat, Message } from '../lib/types';
import { chats } from './chats.svelte';
import { complain } from './toasts.svelte';

/** Messages that are asked for at once, and that the document holds at most. */
export const pageSize = 60;
export const windowSize = 150;

interface Opened {
  chat: Chat;
  messages: Message[];
  total: number;
}

/** What a running answer is doing before its first word. */
export interface Waiting {
  phase: 'queue' | 'load' | 'prefill' | 'answer';
  done: number;
  total: number;
}

/**
 * The chat that is open. Of a long one only a window of messages is held: those
 * from depth first on.
 */
class Open {
  id = $state(0);
  chat = $state<Chat>();
  messages = $state<Message[]>([]);
  first = $state(0);
  total = $state(0);
  loading = $state(false);
  missing = $state(false);
  waiting = $state<Record<number, Waiting>>({});
  usage = $state<Usage>();
  /** Settings for the chat that begins with the next message. */
  fresh = $state<Pick<Partial<Chat>, 'system' | 'settings' | 'folder'>>({});
  private following = new Map<number, AbortController>();
  private turn = 0;

  end = $derived(this.first + this.messages.length);
  last = $derived(this.end === this.total ? this.messages.at(-1) : undefined);
  running = $derived(this.messages.find((m) => m.status === 'running'));

  async show(id: number, message?: number) {
    if (id === this.id && !message) return;
    const turn = ++this.turn;
    this.unfollow();
    this.id = id;
    this.chat = undefined;
    this.messages = [];
    this.first = this.total = 0;
    this.missing = false;
    this.usage = undefined;
    if (!id) return;
    this.loading = true;
    try {
      if (message) await post(`/app/messages/${message}/choose`);
      const opened = await get<Opened>(`/app/chats/${id}?limit=${pageSize}${message ? `&around=${message}` : ''}`);
      if (turn !== this.turn) return;
      this.put(opened);
    } catch (err) {
      if (turn !== this.turn) return;
      this.missing = true;
      complain(err);
    } finally {
      if (turn === this.turn) this.loading = false;
    }
  }

  /** Changes the chat that is open. */
  async change(change: Partial<Chat>) {
    const turn = this.turn;
    const chat = await chats.change(this.id, change);
    if (turn === this.turn) this.chat = chat;
  }

  /** Takes a chat that was made here, so that it need not be read. */
  begin(chat: Chat) {
    ++this.turn;
    this.unfollow();
    this.id = chat.id;
    this.put({ chat, messages: [], total: 0 });
    this.missing = this.loading = false;
  }

  private put(opened: Opened) {
    this.chat = opened.chat;
    this.total = opened.total;
    this.place(opened.messages);
    void this.measure();
  }

  private place(messages: Message[]) {
    // Of an answer that is followed, more is known here than was stored.
    const known = new Map(this.messages.map((m) => [m.id, m]));
    this.messages = messages.map((m) => (this.following.has(m.id) ? (known.get(m.id) ?? m) : m));
    this.first = messages[0]?.depth ?? this.total;
    for (const m of messages) if (m.status === 'running') this.follow(m.id);
  }

  /** Reads the end of the chat again, and returns it. */
  async refresh(): Promise<Message[]> {
    if (!this.id) return [];
    const turn = this.turn;
    const opened = await get<Opened>(`/app/chats/${this.id}?limit=${Math.max(pageSize, Math.min(this.messages.length, windowSize))}`);
    if (turn === this.turn) this.put(opened);
    return opened.messages;
  }

  /** Another window, or this one, did something to a chat. */
  changed(what: { chat: number; message: number }) {
    if (what.chat !== this.id || this.loading) return;
    const known = this.messages.find((m) => m.id === what.message);
    if (known && this.following.has(known.id)) return;
    this.refresh().catch(complain);
  }

  /** Moves the window so that it holds the message at a depth. */
  async reach(depth: number): Promise<void> {
    const start = Math.max(0, Math.min(depth - Math.floor(pageSize / 2), this.total - pageSize));
    await this.fetchWindow(start, start + pageSize);
  }

  async earlier(): Promise<void> {
    if (this.first === 0) return;
    await this.fetchWindow(Math.max(0, this.first - pageSize), this.end);
  }

  async later(): Promise<void> {
    if (this.end >= this.total) return;
    await this.fetchWindow(this.first, Math.min(this.total, this.end + pageSize));
  }

  private async fetchWindow(start: number, end: number) {
    const turn = this.turn;
    const before = end;
    const limit = Math.min(end - start, windowSize);
    // The part that is wanted most is the one that was not there.
    const to = start < this.first ? Math.min(before, start + windowSize) : before;
    const answer = await get<{ messages: Message[]; total: number }>(`/app/chats/${this.id}/messages?before=${to}&limit=${limit}`);
    if (turn !== this.turn) return;
    this.total = answer.total;
    this.place(answer.messages);
  }

  async send(content: string, attachments: Attachment[], model: string) {
    const [turn, id] = [this.turn, this.id];
    const messages = this.end < this.total ? await this.refresh() : this.messages;
    await this.add(`/app/chats/${id}/messages`, { parent: messages.at(-1)?.id ?? 0, content, attachments, model }, turn);
  }

  /** Asks for messages and adds them, unless another chat is open by then. */
  private async add(path: string, body: object, turn = this.turn) {
    const answer = await post<{ messages: Message[] }>(path, body);
    if (turn !== this.turn) return;
    for (const m of answer.messages) {
      const at = this.messages.findIndex((x) => x.depth >= m.depth);
      if (at >= 0) this.messages.splice(at);
      this.messages.push(m);
      this.total = m.depth + 1;
      if (this.messages.length === 1) this.first = m.depth;
      if (m.status === 'running') this.follow(m.id);
    }
    if (this.messages.length > windowSize) {
      this.messages.splice(0, this.messages.length - windowSize);
      this.first = this.messages[0]!.depth;
    }
  }

  async edit(id: number, content: string, attachments: Attachment[], model: string) {
    await this.add(`/app/messages/${id}/edit`, { content, attachments, model });
  }

  async regenerate(id: number, model: string) {
    await this.add(`/app/messages/${id}/regenerate`, { model });
  }

  async continue(id: number, model: string) {
    await this.add(`/app/messages/${id}/continue`, { model });
  }

  async stop(id: number) {
    await post(`/app/messages/${id}/stop`);
  }

  async choose(id: number) {
    await post(`/app/messages/${id}/choose`);
    await this.refresh();
  }

  async drop(id: number) {
    await remove(`/app/messages/${id}`);
    await this.refresh();
  }

  /** Asks how much of the context the chat takes. */
  async measure() {
    const turn = this.turn;
    try {
      const usage = await get<Usage>(`/app/chats/${this.id}/usage`);
      if (turn === this.turn) this.usage = usage;
    } catch {
      if (turn === this.turn) this.usage = undefined;
    }
  }

  private unfollow() {
    for (const c of this.following.values()) c.abort();
    this.following.clear();
    this.waiting = {};
  }

  /** Follows an answer while it is written. */
  private follow(id: number) {
    if (this.following.has(id)) return;
    const control = new AbortController();
    this.following.set(id, control);
    void this.read(id, control.signal).finally(() => {
      if (this.following.get(id) === control) this.following.delete(id);
      delete this.waiting[id];
    });
  }

  private async read(id: number, signal: AbortSignal) {
    for (let tries = 0; tries < 20 && !signal.aborted; tries++) {
      try {
        for await (const event of stream(`/app/messages/${id}/stream`, signal)) {
          tries = 0;
          if (this.take(id, event.name, JSON.parse(event.data))) return;
        }
      } catch {
        // the connection broke; the answer goes on without us
      }
      if (!signal.aborted) await new Promise((done) => setTimeout(done, 250 * (tries + 1)));
    }
  }

  /** Takes one event; true at the end. */
  private take(id: number, name: string, data: Delta): boolean {
    const at = this.messages.findIndex((m) => m.id === id);
    const message = this.messages[at];
    if (!message) return name === 'end';
    switch (name) {
      case 'waiting':
        this.waiting[id] = data as unknown as Waiting;
        break;
      case 'text':
        message.content = data.reset ? data.text : message.content + data.text;
        this.answering(id);
        break;
      case 'reasoning':
        message.reasoning = data.reset ? data.text : (message.reasoning ?? '') + data.text;
        this.answering(id);
        break;
      case 'end':
        this.messages[at] = { ...(data as unknown as Message), depth: message.depth, branches: message.branches };
        void this.measure();
        return true;
    }
    return false;
  }

  private answering(id: number) {
    if (this.waiting[id]?.phase !== 'answer') this.waiting[id] = { phase: 'answer', done: 0, total: 0 };
  }
}

interface Delta {
  /** The text is all there is, not what is added. */
  reset?: boolean;
  text: string;
}

/** How much of the context a chat takes, in tokens and bytes of the cache. */
export interface Usage {
  model: string;
  used: number;
  context: number;
  reserved: number;
  bytes: number;
  bytes_used: number;
  k: string;
  v: string;
}

export const open = new Open();
