import { get, post, remove } from '../lib/api';
import type { Chat, Folder } from '../lib/types';

class Chats {
  list = $state<Chat[]>([]);
  folders = $state<Folder[]>([]);
  /** Chats with a finished answer that no window has shown. */
  unseen = $state<number[]>([]);
  private asked = 0;

  find(id: number): Chat | undefined {
    return this.list.find((c) => c.id === id);
  }

  async refresh() {
    const turn = ++this.asked;
    const now = await get<{ chats: Chat[]; folders: Folder[]; unseen: number[] }>('/app/chats');
    if (turn !== this.asked) return; // a later answer is on its way
    this.list = now.chats;
    this.folders = now.folders;
    this.unseen = now.unseen;
  }

  private put(chat: Chat) {
    const at = this.list.findIndex((c) => c.id === chat.id);
    if (at < 0) this.list.unshift(chat);
    else this.list[at] = chat;
  }

  async create(chat: Partial<Chat>): Promise<Chat> {
    const made = await post<Chat>('/app/chats', chat);
    this.put(made);
    return made;
  }

  async change(id: number, change: Partial<Chat>): Promise<Chat> {
    const now = await post<Chat>(`/app/chats/${id}`, change);
    this.put(now);
    return now;
  }

  async drop(id: number) {
    await remove(`/app/chats/${id}`);
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
