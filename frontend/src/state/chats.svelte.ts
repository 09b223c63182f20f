import { get, post, remove } from '../lib/api';
import type { Chat, Folder } from '../lib/types';

/** The order of the list, as on the server. */
const order = (a: Chat, b: Chat) => Number(b.pinned) - Number(a.pinned) || Date.parse(b.updated) - Date.parse(a.updated) || b.id - a.id;

class Chats {
  private all = $state<Chat[]>([]);
  /** Chats that were just deleted here and can still be restored. */
  private leaving = $state<number[]>([]);
  list = $derived(this.all.filter((c) => !this.leaving.includes(c.id)));
  folders = $state<Folder[]>([]);
  /** Chats with a finished answer that no window has shown. */
  unseen = $state<number[]>([]);
  /** Counts requests for the list, because responses to older requests are ignored. */
  private asked = 0;
  private newest: Promise<void> = Promise.resolve();
  /** Counts local changes, because responses to earlier requests do not contain them. */
  private changed = 0;
  private changes: Promise<unknown> = Promise.resolve();

  find(id: number): Chat | undefined {
    return this.list.find((c) => c.id === id);
  }

  /** Loads the list and returns when it is at least as new as this call. */
  refresh(): Promise<void> {
    return (this.newest = this.read(++this.asked));
  }

  private async read(turn: number): Promise<void> {
    const { changed } = this;
    const now = await get<{ chats: Chat[]; folders: Folder[]; unseen: number[] }>('/app/chats');
    if (turn !== this.asked) return this.newest;
    if (changed !== this.changed) return this.read(turn);
    this.all = now.chats;
    this.folders = now.folders;
    this.unseen = now.unseen;
  }

  private put(chat: Chat) {
    ++this.changed;
    this.all = [chat, ...this.all.filter((c) => c.id !== chat.id)].sort(order);
  }

  async create(chat: Partial<Chat>): Promise<Chat> {
    const made = await post<Chat>('/app/chats', chat);
    this.put(made);
    return made;
  }

  /**
   * Changes a chat. Each change starts from the result of the previous one, so that none is
   * lost.
   */
  change(id: number, what: (now: Chat) => Partial<Chat>): Promise<void> {
    const done = this.changes.then(async () => {
      const chat = this.find(id);
      if (chat) this.put(await post<Chat>(`/app/chats/${id}`, what(chat)));
    });
    this.changes = done.catch(() => undefined);
    return done;
  }

  async drop(id: number) {
    await remove(`/app/chats/${id}`);
    ++this.changed;
    this.all = this.all.filter((c) => c.id !== id);
  }

  /** Hides a chat that will be deleted, or shows it again. */
  hide(id: number, hidden = true) {
    this.leaving = hidden ? [...this.leaving, id] : this.leaving.filter((c) => c !== id);
  }

  async saveFolder(folder: Partial<Folder>): Promise<Folder> {
    return post<Folder>('/app/folders', folder);
  }

  async dropFolder(id: number) {
    await remove(`/app/folders/${id}`);
  }
}

export const chats = new Chats();
