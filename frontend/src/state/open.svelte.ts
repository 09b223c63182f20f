import { SvelteMap } from 'svelte/reactivity';
import { ApiError, explain, get, post, remove } from '../lib/api';
import { stream } from '../lib/sse';
import type { Attachment, Chat, Figures, Message, Piece, ToolResult, Usage } from '../lib/types';
import { recall, remember } from '../lib/window';
import { chats } from './chats.svelte';
import { drafts } from './drafts.svelte';
import { go } from './route.svelte';
import { complain, undoTime } from './toasts.svelte';

/** Number of messages in a request, and maximum number in the document. */
export const pageSize = 60;
export const windowSize = 150;

/** Storage key of the settings for this window's new chat. */
const newSettings = 'godwit.settings';

interface Part {
  messages: Message[];
  total: number;
}

/** What a running answer is doing before its first word. */
export interface Waiting {
  phase: 'prepare' | 'measure' | 'load' | 'queue' | 'prefill' | 'call' | 'answer';
  done: number;
  total: number;
  /** Estimated remaining seconds. */
  left_s?: number;
}

/** An answer that the page follows, with the data from its stream. */
interface Followed {
  control: AbortController;
  content?: string;
  reasoning?: string;
}

/** Reports whether the chat of a request is still open. */
type Here = () => boolean;

/**
 * The open chat. If the chat is long, only some of its messages are held. They are called
 * the window, and first is the depth of the earliest message in it.
 */
class Open {
  id = $state(0);
  messages = $state<Message[]>([]);
  first = $state(0);
  total = $state(0);
  loading = $state(false);
  /** The reason why the messages could not be loaded. */
  fault = $state('');
  waiting = $state<Record<number, Waiting>>({});
  figures = $state<Record<number, Figures>>({});
  private measuredUsage = $state<Usage>();
  /** Settings for the chat that the next message creates. */
  fresh = $state<Pick<Partial<Chat>, 'system' | 'settings' | 'folder' | 'private'>>(recall(newSettings) ?? {});
  /** Chats with a requested answer that has not started. */
  private asking = $state<number[]>([]);
  private followed = new SvelteMap<number, Followed>();
  private turn = 0;
  private measured = 0;
  private queue: Promise<unknown> = Promise.resolve();
  /** The hidden message that will soon be deleted with everything below it. */
  private leaving?: { id: number; depth: number; finish: () => Promise<void> };

  chat = $derived(chats.find(this.id));
  end = $derived(this.first + this.messages.length);
  last = $derived(this.end === this.total ? this.messages.at(-1) : undefined);
  /** Id of the answer that is being generated. The answer may be outside the window. */
  running = $derived(this.followed.keys().next().value);
  /** How much of the context is used according to the latest data. */
  usage = $derived.by(() => {
    const known = this.measuredUsage;
    const live = this.running === undefined ? undefined : this.figures[this.running];
    if (!live) return known;
    const reading = this.waiting[this.running!];
    const used = reading?.phase === 'prefill' ? reading.done : live.prompt + live.tokens;
    return {
      model: '', reserved: 0, k: '', v: '', ...known,
      used, context: live.context, bytes: live.bytes, bytes_used: Math.min(used * live.token_bytes, live.bytes),
    };
  });
  /** An answer was requested or is being generated, so the next one must wait. */
  busy = $derived(this.running !== undefined || this.asking.includes(this.id));

  constructor() {
    $effect.root(() => {
      $effect(() => remember(newSettings, this.fresh.private ? { private: true } : this.fresh)); // a private chat's settings are left out, because browsers write session storage to disk
      $effect(() => drafts.hide(!!this.fresh.private));
    });
  }

  /** Opens a chat at a message or at its end. */
  async show(id: number, message?: number) {
    if (id === this.id && (!message || this.messages.some((m) => m.id === message))) return;
    this.turnTo(id);
    if (id) await this.load(message);
  }

  private turnTo(id: number) {
    void this.leaving?.finish();
    ++this.turn;
    this.queue = Promise.resolve();
    for (const [id, f] of [...this.followed]) this.unfollow(id, f);
    this.id = id;
    this.messages = [];
    this.first = this.total = 0;
    this.loading = false;
    this.fault = '';
    this.measuredUsage = undefined;
  }

  /** Loads the chat for the first time, or again after an error. */
  async load(message?: number) {
    this.loading = true;
    await this.inTurn(async (here) => {
      try {
        if (message) await post(`/app/messages/${message}/choose`);
        await this.reread(here, message ? `around=${message}` : '');
      } catch (err) {
        if (here()) this.fault = explain(err);
      }
      if (here()) this.loading = false;
    });
  }

  /**
   * Runs changes of the messages one after another, so that an older response never follows
   * a newer one. If another chat is open when the work ends, the work must not change that
   * chat.
   */
  private inTurn<T>(work: (here: Here) => Promise<T>): Promise<T> {
    const turn = this.turn;
    const done = this.queue.then(() => work(() => turn === this.turn));
    this.queue = done.catch(() => undefined);
    return done;
  }

  private put(part: Part) {
    const end = this.leaving?.depth ?? Infinity;
    const messages = part.messages.filter((m) => m.depth < end);
    this.fault = '';
    this.total = Math.min(part.total, end);
    this.messages = messages.map((m) => this.grown(m));
    this.first = messages[0]?.depth ?? this.total;
    drafts.recall(messages);
    for (const m of messages) if (m.status === 'running') this.follow(m.id);
  }

  /**
   * Returns the current version of a message. The text of a followed message comes from its
   * stream.
   */
  private grown(m: Message): Message {
    const f = this.followed.get(m.id);
    if (m.status === 'running') return { ...m, content: f?.content ?? m.content, reasoning: f?.reasoning ?? m.reasoning };
    if (f) this.unfollow(m.id, f);
    return m;
  }

  /**
   * Loads a part of the chat. The default is the part that is shown: the end of the chat or
   * the current window.
   */
  private async reread(here: Here, where = this.end < this.total ? `before=${this.end}` : '') {
    if (!here() || !this.id) return;
    const limit = Math.max(pageSize, Math.min(this.messages.length, windowSize));
    const part = await get<Part>(`/app/chats/${this.id}?limit=${limit}&${where}`);
    if (!here()) return;
    this.put(part);
    void this.measure();
  }

  /** Loads and shows the end of the chat. */
  toEnd(): Promise<void> {
    return this.inTurn((here) => this.reread(here, ''));
  }

  /** Reloads the chat after the server was unreachable. */
  recover() {
    if (!this.id) return;
    (this.fault ? this.load() : this.inTurn((here) => this.reread(here))).catch(complain);
  }

  /** Handles a change of a chat by this or another window. */
  changed(what: { chat: number; message: number }) {
    if (what.chat !== this.id) return;
    this.inTurn(async (here) => {
      if (!this.followed.has(what.message)) await this.reread(here);
    }).catch(complain);
  }

  /** Moves the window so that it holds the message at a depth. */
  reach(depth: number): Promise<void> {
    const start = Math.max(0, Math.min(depth - Math.floor(pageSize / 2), this.total - pageSize));
    return this.move(() => [start, start + pageSize]);
  }

  earlier(): Promise<void> {
    return this.move(() => [Math.max(0, this.first - pageSize), this.end]);
  }

  later(): Promise<void> {
    return this.move(() => [this.first, Math.min(this.total, this.end + pageSize)]);
  }

  private move(to: () => [number, number]): Promise<void> {
    return this.inTurn(async (here) => {
      if (!here()) return;
      const [start, end] = to();
      // If one response cannot hold all messages, it must contain the ones that
      // are missing here.
      const before = start < this.first ? Math.min(end, start + windowSize) : end;
      const part = await get<Part>(`/app/chats/${this.id}/messages?before=${before}&limit=${Math.min(end - start, windowSize)}`);
      if (here()) this.put(part);
    });
  }

  /** Sends a message. Without an open chat it creates one. */
  send(content: string, attachments: Attachment[], model: string): Promise<void> {
    const id = this.id;
    return this.ask(async (here) => {
      if (id) return this.post(`/app/chats/${id}/messages`, { parent: await this.newest(id, here), content, attachments, model }, here);
      const made = await chats.create({ model, ...this.fresh });
      try {
        await this.post(`/app/chats/${made.id}/messages`, { parent: 0, content, attachments, model }, () => {
          this.fresh = {};
          if (!here()) return false;
          drafts.made(made.id);
          this.turnTo(made.id);
          go({ view: 'chat', chat: made.id }, true);
          return true;
        });
      } catch (err) {
        await chats.drop(made.id).catch(() => undefined); // if this fails, the chat stays empty
        throw err;
      }
    });
  }

  /** Returns the id of the chat's last message, which the next one follows; 0 without one. */
  private async newest(id: number, here: Here): Promise<number> {
    if (here() && (this.fault || this.end < this.total)) await this.reread(here, '');
    const messages = here() ? this.messages : (await get<Part>(`/app/chats/${id}/messages?limit=1`)).messages;
    return messages.at(-1)?.id ?? 0;
  }

  /** Requests an answer. Until it has started, no other can be requested in the chat. */
  private async ask(work: (here: Here) => Promise<void>) {
    await this.leaving?.finish();
    const id = this.id;
    this.asking.push(id);
    try {
      await this.inTurn(work);
    } finally {
      this.asking = this.asking.filter((chat) => chat !== id);
    }
  }

  private async post(path: string, body: object, here: Here) {
    const { messages } = await post<{ messages: Message[] }>(path, body);
    if (here()) this.add(messages);
  }

  private add(messages: Message[]) {
    for (const m of messages) {
      const at = this.messages.findIndex((x) => x.depth >= m.depth);
      if (at >= 0) this.messages.splice(at);
      this.messages.push(this.grown(m));
      this.total = m.depth + 1;
      if (this.messages.length === 1) this.first = m.depth;
      if (m.status === 'running') this.follow(m.id);
    }
    if (this.messages.length > windowSize) {
      this.messages.splice(0, this.messages.length - windowSize);
      this.first = this.messages[0]!.depth;
    }
  }

  /** Sends the results of tool calls at the end of the chat. */
  resolve(results: ToolResult[], model: string): Promise<void> {
    const { id } = this;
    return this.ask(async (here) => this.post(`/app/chats/${id}/messages`, { parent: await this.newest(id, here), results, model }, here));
  }

  edit(id: number, content: string, attachments: Attachment[], model: string): Promise<void> {
    return this.ask((here) => this.post(`/app/messages/${id}/edit`, { content, attachments, model }, here));
  }

  regenerate(id: number, model: string): Promise<void> {
    return this.ask((here) => this.post(`/app/messages/${id}/regenerate`, { model }, here));
  }

  continue(id: number, model: string): Promise<void> {
    return this.ask((here) => this.post(`/app/messages/${id}/continue`, { model }, here));
  }

  async stop(id: number) {
    await post(`/app/messages/${id}/stop`);
  }

  /** Completes a pending deletion now, although it could still be undone. */
  async dropNow() {
    await this.leaving?.finish();
  }

  choose(id: number): Promise<void> {
    return this.inTurn(async (here) => {
      await post(`/app/messages/${id}/choose`);
      await this.reread(here, `around=${id}`);
    });
  }

  /**
   * Deletes a message and everything below it after a delay. Until then, the returned
   * function restores them.
   */
  async drop({ id, depth }: Message): Promise<() => void> {
    await this.leaving?.finish();
    const gone = { id, depth, finish: () => Promise.resolve() };
    const over = () => {
      clearTimeout(timer);
      removeEventListener('pagehide', gone.finish);
      if (this.leaving === gone) this.leaving = undefined;
    };
    gone.finish = async () => {
      if (this.leaving !== gone) return;
      const asked = remove(`/app/messages/${id}`);
      over();
      await asked.catch((err) => complain(err));
      await this.inTurn((here) => this.reread(here, ''));
    };
    const timer = setTimeout(() => void gone.finish(), undoTime);
    addEventListener('pagehide', gone.finish);
    this.leaving = gone;
    this.messages = this.messages.filter((m) => m.depth < depth);
    this.total = depth;
    return () => {
      if (this.leaving !== gone) return;
      over();
      this.inTurn((here) => this.reread(here, '')).catch(complain);
    };
  }

  /** Requests how much of the context the chat uses. */
  private async measure() {
    const [turn, asked] = [this.turn, ++this.measured];
    const usage = await get<Usage>(`/app/chats/${this.id}/usage`).catch(() => undefined);
    if (turn === this.turn && asked === this.measured) this.measuredUsage = usage;
  }

  /** Follows an answer while it is generated. */
  private follow(id: number) {
    if (this.followed.has(id)) return;
    const f: Followed = { control: new AbortController() };
    this.followed.set(id, f);
    void this.read(id, f).finally(() => this.unfollow(id, f));
  }

  private unfollow(id: number, f: Followed) {
    f.control.abort();
    if (this.followed.get(id) !== f) return; // the answer is already followed again
    this.followed.delete(id);
    delete this.waiting[id];
    delete this.figures[id];
  }

  private async read(id: number, f: Followed) {
    const { signal } = f.control;
    for (let tries = 0; tries < 20 && !signal.aborted; tries++) {
      try {
        for await (const event of stream(`/app/messages/${id}/stream`, signal)) {
          if (signal.aborted) return;
          tries = 0;
          if (this.take(id, f, event.name, JSON.parse(event.data))) return;
        }
      } catch (err) {
        if (err instanceof ApiError && err.status === 404) return; // the message was deleted
        // otherwise the connection broke, and the answer continues without this
        // page
      }
      if (!signal.aborted) await new Promise((done) => setTimeout(done, 250 * (tries + 1)));
    }
  }

  /**
   * Handles one event and returns true at the end of the answer. The message may be outside
   * the window.
   */
  private take(id: number, f: Followed, name: string, data: Piece): boolean {
    const at = this.messages.findIndex((m) => m.id === id);
    const message = this.messages[at];
    switch (name) {
      case 'waiting':
        this.waiting[id] = data as unknown as Waiting;
        break;
      case 'figures':
        this.figures[id] = data as unknown as Figures;
        break;
      case 'text':
        f.content = data.reset ? data.text : (f.content ?? '') + data.text;
        if (message) message.content = f.content;
        this.answering(id);
        break;
      case 'reasoning':
        f.reasoning = data.reset ? data.text : (f.reasoning ?? '') + data.text;
        if (message) message.reasoning = f.reasoning;
        this.answering(id);
        break;
      case 'end':
        this.unfollow(id, f);
        if (message) this.messages[at] = { ...(data as unknown as Message), depth: message.depth, branches: message.branches };
        void this.measure();
        return true;
    }
    return false;
  }

  private answering(id: number) {
    if (this.waiting[id]?.phase !== 'answer') this.waiting[id] = { phase: 'answer', done: 0, total: 0 };
  }
}

export const open = new Open();
