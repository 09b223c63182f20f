import { beforeEach, expect, it, vi } from 'vitest';
import { keep, kept, largest, places } from '../lib/kept';
import type { Chat, Message } from '../lib/types';
import { chats } from './chats.svelte';

vi.mock('../lib/window', () => ({ windowName: 'here', newWindow: true, abandoned: (names: string[]) => Promise.resolve(names) }));
const { drafts } = await import('./drafts.svelte');

const chat = (id: number, day = 1) => ({ id, title: '', pinned: false, created: `2026-01-0${day}T00:00:00Z`, updated: `2026-01-0${day}T00:00:00Z` }) as Chat;
const at = (c: Chat) => `chat.${c.id}.${Date.parse(c.created)}`;

beforeEach(() => {
  localStorage.clear();
  chats.list = [];
});

it('continues with the new chat of a window that was closed, and forgets no other draft for it', async () => {
  ['chat.1.1', 'chat.2.1', 'chat.3.1', 'new.gone'].forEach((place, i) => {
    vi.spyOn(Date, 'now').mockReturnValueOnce(1000 + i);
    keep(place, { text: 'x'.repeat(largest - 100) });
  });
  const before = places('').length;
  await drafts.start();
  expect(places('new.')).toEqual(['new.here']);
  expect(places('').length).toBe(before);
  expect(drafts.of(0).text.length).toBe(largest - 100);
});

it('keeps what is written in a chat that is not in the list yet', () => {
  drafts.of(7).text = 'early';
  chats.list = [chat(7)];
  expect(drafts.of(7).text).toBe('early');
  dispatchEvent(new Event('pagehide'));
  expect(kept(at(chat(7)))?.text).toBe('early');
});

it('leaves the chats of another folder of data alone', () => {
  const [mine, other] = [chat(8, 1), chat(8, 2)];
  chats.list = [mine];
  drafts.of(8).text = 'mine';
  drafts.edit({ id: 3, chat: 8, created: mine.created } as Message, 'edited');
  keep(at(other), { text: 'theirs' });
  chats.list = [];
  drafts.drop(mine);
  expect(places('')).toEqual([at(other)]);
});
