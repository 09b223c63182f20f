// What a chat says about its answers: system prompt, sampling, reasoning, and the
// presets that hold all of it.
import type { Chat, ChatSettings, Preset } from '../lib/types';
import { app } from './app.svelte';
import { chats } from './chats.svelte';
import { choice } from './choice.svelte';
import { open } from './open.svelte';
import { attempt } from './toasts.svelte';

export type Terms = Pick<Partial<Chat>, 'system' | 'settings'>;

/** The terms of a chat; 0 stands for the chat that the next message will begin. */
export function termsOf(chat: number): Terms {
  return (chat ? chats.find(chat) : open.fresh) ?? {};
}

/** Changes the terms of a chat; a function makes the new settings of those that hold then. */
export async function saveTerms(chat: number, change: Terms | ((now: ChatSettings) => ChatSettings), at: string): Promise<void> {
  const made = (now: Terms) => (typeof change === 'function' ? { settings: change(now.settings ?? {}) } : change);
  if (chat) await attempt(() => chats.change(chat, made), at);
  else Object.assign(open.fresh, made(open.fresh));
}

/** Gives a chat the words, numbers and, where it is here, the model of a preset. */
export async function applyPreset(chat: number, preset: Preset, at: string) {
  const { system, settings, model } = preset;
  if (app.usable.some((m) => m.name === model)) {
    choice.pick(model);
    if (chat) await attempt(() => chats.change(chat, () => ({ model })), at);
  }
  await saveTerms(chat, { system, settings }, at);
}

/** Whether the model thinks first: '' is as it likes. */
export const thinkingOf = ({ settings }: Terms): '' | 'on' | 'off' => (settings?.thinking === undefined ? '' : settings.thinking ? 'on' : 'off');

export const setThinking = (chat: number, to: string, at: string) =>
  saveTerms(chat, ({ thinking: _, ...rest }) => (to === '' ? rest : { ...rest, thinking: to === 'on' }), at);

/** The preset whose words and numbers a chat has. */
export function presetOf(terms: Terms): Preset | undefined {
  const settings = JSON.stringify(terms.settings ?? {});
  return app.presets.find((p) => p.system === (terms.system ?? '') && JSON.stringify(p.settings) === settings);
}
