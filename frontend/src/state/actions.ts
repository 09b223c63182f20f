import Download from '@lucide/svelte/icons/download';
import FileJson from '@lucide/svelte/icons/file-braces';
import FolderInput from '@lucide/svelte/icons/folder-input';
import FolderMinus from '@lucide/svelte/icons/folder-minus';
import Pencil from '@lucide/svelte/icons/pencil';
import Pin from '@lucide/svelte/icons/pin';
import PinOff from '@lucide/svelte/icons/pin-off';
import Trash2 from '@lucide/svelte/icons/trash-2';
import { desktop, post, request } from '../lib/api';
import { chooseFiles, fileName, saveFile } from '../lib/files';
import type { Chat } from '../lib/types';
import type { Item } from '../parts/Menu.svelte';
import { named } from './ask.svelte';
import { chats } from './chats.svelte';
import { drafts } from './drafts.svelte';
import { open } from './open.svelte';
import { go } from './route.svelte';
import { attempt, say, undoTime } from './toasts.svelte';
import * as msg from '../paraglide/messages.js';

/** Returns the menu of actions for a chat. */
export function chatMenu(chat: Chat): (Item | 'line')[] {
  const folders: Item[] = chats.folders
    .filter((f) => f.id !== chat.folder)
    .map((f) => ({ label: msg.actions_move_to({ name: f.name }), icon: FolderInput, run: () => void change(chat, { folder: f.id }) }));
  const places: Item[] = [
    { label: chat.pinned ? msg.actions_unpin() : msg.actions_pin(), icon: chat.pinned ? PinOff : Pin, run: () => void change(chat, { pinned: !chat.pinned }) },
    ...folders,
    { label: msg.actions_move_to_new_folder(), icon: FolderInput, run: () => void moveToNew(chat) },
    ...(chat.folder ? [{ label: msg.actions_remove_from_folder(), icon: FolderMinus, run: () => void change(chat, { folder: 0 }) }] : []),
  ];
  return [
    { label: msg.actions_rename(), icon: Pencil, run: () => void rename(chat) },
    ...(chat.private ? [] : places),
    'line',
    { label: msg.actions_export_as_markdown(), icon: Download, run: () => void exportChat(chat, 'markdown') },
    { label: msg.actions_export_as_json(), icon: FileJson, run: () => void exportChat(chat, 'json') },
    'line',
    { label: chat.private ? msg.actions_delete_now() : msg.word_delete(), icon: Trash2, danger: true, run: () => (chat.private ? void dropNow(chat) : drop(chat)) },
  ];
}

const change = (chat: Chat, what: Partial<Chat>) => attempt(() => chats.change(chat.id, () => what));

export async function rename(chat: Chat) {
  const title = await named(msg.actions_rename_chat(), chat.title);
  if (title) await change(chat, { title });
}

async function moveToNew(chat: Chat) {
  const name = await named(msg.actions_new_folder(), '', msg.actions_create(), msg.actions_name_of_the_folder());
  if (!name) return;
  await attempt(async () => {
    const folder = await chats.saveFolder({ name });
    await chats.change(chat.id, () => ({ folder: folder.id }));
    await chats.refresh();
  });
}

/**
 * Deleted chats that can still be restored, with the function that deletes each on the
 * server.
 */
const leaving = new Map<number, () => Promise<void>>();
addEventListener('pagehide', () => leaving.forEach((finish) => void finish()));

/** Deletes a chat. For a few seconds, this can be undone. */
function drop(chat: Chat) {
  const shown = open.id === chat.id;
  chats.hide(chat.id);
  if (shown) go({ view: 'chat', chat: 0 }, true);
  const finish = async () => {
    if (!leaving.delete(chat.id)) return;
    if (await attempt(() => chats.drop(chat.id))) drafts.drop(chat);
    chats.hide(chat.id, false);
  };
  leaving.set(chat.id, finish);
  setTimeout(() => void finish(), undoTime);
  say(msg.actions_chat_deleted(), {
    label: msg.actions_undo(),
    run: () => {
      if (!leaving.delete(chat.id)) return;
      chats.hide(chat.id, false);
      if (shown) go({ view: 'chat', chat: chat.id }, true);
    },
  });
}

/** Deletes a private chat at once. */
async function dropNow(chat: Chat) {
  if (!(await attempt(() => chats.drop(chat.id)))) return;
  drafts.drop(chat);
  if (open.id === chat.id) go({ view: 'chat', chat: 0 }, true);
  say(msg.actions_chat_deleted());
}

async function exportChat(chat: Chat, as: 'markdown' | 'json') {
  const name = `${fileName(chat.title)}.${as === 'json' ? 'json' : 'md'}`;
  await save(name, `/app/chats/${chat.id}/export?as=${as}`, { what: 'chat', chat: chat.id, as });
}

/** Exports every chat. */
export const exportAll = () => save('godwit-chats.json', '/app/export', { what: 'chats' });

/** Exports every preset. */
export const exportPresets = () => save('godwit-presets.json', '/app/presets/export', { what: 'presets' });

/** Imports presets. An imported preset replaces an existing one with the same name. */
export async function importPresets() {
  const [file] = await chooseFiles('.json,application/json', false);
  if (!file) return;
  await attempt(async () => {
    const answer = await request('POST', '/app/presets/import', file);
    const { presets: n } = (await answer.json()) as { presets: number };
    say(n === 1 ? msg.actions_imported_1_preset() : msg.actions_imported_presets({ count: n }));
  }, 'panel');
}

// The window saves files with the system's dialog, because web views do not offer
// downloads to the user.
async function save(name: string, path: string, what: object) {
  await attempt(async () => {
    if (desktop()) {
      const { path: where } = await post<{ path: string }>('/app/native/save', { name, ...what });
      if (where) say(msg.actions_saved({ where }));
      return;
    }
    const answer = await request('GET', path);
    saveFile(name, await answer.blob());
  });
}

export async function importChats() {
  const files = await chooseFiles('.json,.md,.markdown,application/json,text/markdown');
  if (files.length > 0) await importFiles(files);
}

/**
 * Imports files one after another, each completely or not at all, and stops at the first
 * failure.
 */
export async function importFiles(files: File[]) {
  let last: Chat | undefined;
  let n = 0;
  for (const file of files) {
    const taken = await attempt(async () => {
      const answer = await request('POST', '/app/import', file);
      const { chats: made } = (await answer.json()) as { chats: Chat[] };
      n += made.length;
      last = made[0] ?? last;
    });
    if (!taken) break;
  }
  if (!last) return;
  const { id } = last;
  await attempt(async () => {
    await chats.refresh();
    say(n === 1 ? msg.actions_imported_1_chat() : msg.actions_imported_chats({ value: n }));
    go({ view: 'chat', chat: id });
  });
}
