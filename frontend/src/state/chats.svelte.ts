import { get, post, remove } from '../lib/api';
import type { Chat, Folder } from '../lib/types';

class Chats {
  list = $state<Chat[]>([]);
  folders = $state<Folder[]>([]);
  /** Chats with a finished answer that no window has shown. */
  unseen = $state<number[]>([]);
  /** Counts what is known of the list: an answer to an older question comes too late. */
  private asked = 0;
  private changes: Promise<unknown> = Promise.resolve();

  find(id: number): Chat | undefined {
    return this.list.find((c) => c.id === id);
  }

  async refresh() {
    const turn = ++this.asked;
    const now = await get<{ chats: Chat[]; folders: Folder[]; unseen: number[] }>('/app/chats');
    if (turn !== this.asked) return; // a later answer is on its way, or has come
    this.list = now.chats;
    this.folders = now.folders;
    this.unseen = now.unseen;
  }

  private put(chat: Chat) {
    ++this.asked;
    const at = this.list.findIndex((c) => c.id === chat.id);
    if (at < 0) this.list.unshift(chat);
    else this.list[at] = chat;
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
    ++this.asked;
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
