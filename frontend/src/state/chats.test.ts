import { beforeEach, expect, it, vi } from 'vitest';
import type { Chat } from '../lib/types';
import { chats } from './chats.svelte';

const api = vi.hoisted(() => ({ get: vi.fn(), post: vi.fn(), remove: vi.fn() }));
vi.mock('../lib/api', () => api);

const chat = (id: number, day: number, change: Partial<Chat> = {}) => ({ id, title: `Chat ${id}`, pinned: false, updated: `2026-01-0${day}T00:00:00Z`, ...change }) as Chat;
const listed = (...list: Chat[]) => ({ chats: list, folders: [], unseen: [] });
const titles = () => chats.list.map((c) => c.title);

/** Delays the response of a mock's next call until the returned function is called. */
function held<T>(fn: ReturnType<typeof vi.fn>): (value: T) => void {
  let answer!: (value: T) => void;
  fn.mockReturnValueOnce(new Promise<T>((resolve) => (answer = resolve)));
  return answer;
}

beforeEach(async () => {
  api.get.mockResolvedValueOnce(listed(chat(1, 1, { pinned: true }), chat(3, 3), chat(2, 2)));
  await chats.refresh();
});

it('keeps a changed chat where the server lists it', async () => {
  api.post.mockResolvedValueOnce(chat(1, 1));
  await chats.change(1, () => ({ pinned: false }));
  expect(titles()).toEqual(['Chat 3', 'Chat 2', 'Chat 1']);
  api.post.mockResolvedValueOnce(chat(4, 4));
  await chats.create({});
  expect(titles()).toEqual(['Chat 4', 'Chat 3', 'Chat 2', 'Chat 1']);
});

it('asks again where a change was made meanwhile', async () => {
  const early = held(api.get);
  const read = chats.refresh();
  api.post.mockResolvedValueOnce(chat(2, 2, { title: 'Renamed' }));
  await chats.change(2, (now) => now);
  api.get.mockResolvedValueOnce(listed(chat(5, 5), chat(2, 2, { title: 'Renamed' })));
  early(listed(chat(5, 5), chat(2, 2)));
  await read;
  expect(titles()).toEqual(['Chat 5', 'Renamed']);
});

it('knows what was asked for when a later question overtakes it', async () => {
  const [early, late] = [held(api.get), held(api.get)];
  const first = chats.refresh();
  const second = chats.refresh();
  let known = false;
  void first.then(() => (known = true));
  early(listed(chat(1, 1)));
  await new Promise((done) => setTimeout(done));
  expect(known).toBe(false);
  late(listed(chat(6, 6), chat(1, 1)));
  await Promise.all([first, second]);
  expect(titles()).toEqual(['Chat 6', 'Chat 1']);
});
