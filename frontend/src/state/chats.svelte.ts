import { get, post, remove } from '../lib/api';
import type { Chat, Folder } from '../lib/types';

/** The order of the list, as on the server. */
const order = (a: Chat, b: Chat) => Number(b.pinned) - Number(a.pinned) || Date.parse(b.updated) - Date.parse(a.updated) || b.id - a.id;

class Chats {
  list = $state<Chat[]>([]);
  folders = $state<Folder[]>([]);
  /** Chats with a finished answer that no window has shown. */
  unseen = $state<number[]>([]);
  /** Counts the questions for the list: an answer to an older one comes too late. */
  private asked = 0;
  private newest: Promise<void> = Promise.resolve();
  /** Counts the changes that were made here: what was asked for before one lacks it. */
  private changed = 0;
  private changes: Promise<unknown> = Promise.resolve();

  find(id: number): Chat | undefined {
    return this.list.find((c) => c.id === id);
  }

  /** Reads the list, and returns when what is known is as new as this question. */
  refresh(): Promise<void> {
    return (this.newest = this.read(++this.asked));
  }

  private async read(turn: number): Promise<void> {
    const { changed } = this;
    const now = await get<{ chats: Chat[]; folders: Folder[]; unseen: number[] }>('/app/chats');
    if (turn !== this.asked) return this.newest;
    if (changed !== this.changed) return this.read(turn);
    this.list = now.chats;
    this.folders = now.folders;
    this.unseen = now.unseen;
  }

  private put(chat: Chat) {
    ++this.changed;
    this.list = [chat, ...this.list.filter((c) => c.id !== chat.id)].sort(order);
  }

  async create(chat: Partial<Chat>): Promise<Chat> {
    const made = await post<Chat>('/app/chats', chat);
    this.put(made);
    return made;
  }

  /** Changes a chat. Each change is made of what the one before has left, so that none is lost. */
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
    this.list = this.list.filter((c) => c.id !== id);
  }

  async saveFolder(folder: Partial<Folder>): Promise<Folder> {
    return post<Folder>('/app/folders', folder);
  }

  async dropFolder(id: number) {
    await remove(`/app/folders/${id}`);
  }
}

export const chats = new Chats();
