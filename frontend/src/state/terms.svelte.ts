// The terms of a chat: its system prompt, sampling settings and reasoning
// setting. A preset stores all of them.
import type { Chat, ChatSettings, Preset } from '../lib/types';
import { app } from './app.svelte';
import { chats } from './chats.svelte';
import { choice } from './choice.svelte';
import { open } from './open.svelte';
import { attempt } from './toasts.svelte';

export type Terms = Pick<Partial<Chat>, 'system' | 'settings'>;

/** Returns the terms of a chat. 0 stands for the chat that the next message will create. */
export function termsOf(chat: number): Terms {
  return (chat ? chats.find(chat) : open.fresh) ?? {};
}

/**
 * Changes the terms of a chat. If change is a function, it gets the chat's current settings
 * and returns the new ones.
 */
export async function saveTerms(chat: number, change: Terms | ((now: ChatSettings) => ChatSettings), at: string): Promise<void> {
  const made = (now: Terms) => (typeof change === 'function' ? { settings: change(now.settings ?? {}) } : change);
  if (chat) await attempt(() => chats.change(chat, made), at);
  else Object.assign(open.fresh, made(open.fresh));
}

/**
 * Applies a preset's system prompt and settings to a chat, and also the preset's model if it
 * is usable.
 */
export async function applyPreset(chat: number, preset: Preset, at: string) {
  const { system, settings, model } = preset;
  if (app.usable.some((m) => m.name === model)) {
    choice.pick(model);
    if (chat) await attempt(() => chats.change(chat, () => ({ model })), at);
  }
  await saveTerms(chat, { system, settings }, at);
}

/** Returns whether the model reasons before answering. '' leaves it to the model. */
export const thinkingOf = ({ settings }: Terms): '' | 'on' | 'off' => (settings?.thinking === undefined ? '' : settings.thinking ? 'on' : 'off');

export const setThinking = (chat: number, to: string, at: string) =>
  saveTerms(chat, ({ thinking: _, ...rest }) => (to === '' ? rest : { ...rest, thinking: to === 'on' }), at);

/** Returns the preset with the same system prompt and settings as the chat. */
export function presetOf(terms: Terms): Preset | undefined {
  const settings = JSON.stringify(terms.settings ?? {});
  return app.presets.find((p) => p.system === (terms.system ?? '') && JSON.stringify(p.settings) === settings);
}
