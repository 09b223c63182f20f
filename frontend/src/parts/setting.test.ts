import { flushSync, mount, unmount } from 'svelte';
import { expect, it, vi } from 'vitest';
import type { Field } from '../lib/types';
import { settings } from '../state/settings.svelte';
import SettingField from './SettingField.svelte';

const field = (change: Partial<Field>) => ({ name: 'server.api_key', kind: 'list', help: '', default: '', applies: 'start', origin: 'file', value: null, ...change }) as Field;

/** Shows a setting. Returns the mock of save and a function that removes the setting. */
function shown(given: Field) {
  const save = vi.spyOn(settings, 'save').mockResolvedValue();
  const line = mount(SettingField, { target: document.body, props: { field: given } });
  flushSync();
  return { save, gone: () => unmount(line) };
}

it('takes a secret out of the file, whose value is not known here', async () => {
  const { save, gone } = shown(field({ secret: true }));
  document.querySelector<HTMLButtonElement>('button[title="Remove"]')!.click();
  expect(save).toHaveBeenCalledExactlyOnceWith({ 'server.api_key': null });
  await gone();
});

it('saves what is typed, but not what is there', async () => {
  const { save, gone } = shown(field({ name: 'server.port', kind: 'int', value: 80 }));
  const input = document.querySelector('input')!;
  for (const text of [' 80 ', '81']) {
    input.value = text;
    input.dispatchEvent(new Event('change', { bubbles: true }));
  }
  expect(save).toHaveBeenCalledExactlyOnceWith({ 'server.port': 81 });
  await gone();
});

it.each(['text', 'list'] as const)('hides a secret once it is saved, and keeps one that is refused (%s)', async (kind) => {
  const { save, gone } = shown(field({ secret: true, kind, origin: 'default' }));
  const box = document.querySelector<HTMLInputElement | HTMLTextAreaElement>('.field')!;
  const type = (text: string) => {
    box.value = text;
    box.dispatchEvent(new Event('change', { bubbles: true }));
  };
  save.mockRejectedValueOnce(new Error('bad value'));
  type('refused');
  await vi.waitFor(() => expect(box.getAttribute('aria-invalid')).toBe('true'));
  expect(box.value).toBe('refused');
  type('hf_secret');
  await vi.waitFor(() => expect(box.value).toBe(''));
  await gone();
});

const kinds: [string, Partial<Field>, string][] = [
  ['switch', { kind: 'bool', value: false }, 'Off'],
  ['automatic switch', { kind: 'bool', auto: true, value: null }, 'Automatic'],
  ['choice', { kind: 'text', choices: ['auto', 'cpu'], value: 'cpu' }, 'cpu'],
  ['number', { kind: 'int', value: 0 }, '0'],
  ['list', { kind: 'list', value: ['a', 'b'] }, 'a, b'],
  ['secret', { kind: 'list', secret: true, given: true, value: null }, 'Set'],
];

it.each(kinds)('shows a locked %s with the reason, can have the focus, and saves nothing', async (_, change, value) => {
  const { save, gone } = shown(field({ ...change, origin: 'policy', policy: '/etc/godwit/policy.toml' }));
  const boxes = [...document.querySelectorAll<HTMLInputElement>('input, textarea, button, select')];
  expect(boxes.map((b) => [b.tagName, b.value, b.readOnly, b.disabled, b.getAttribute('aria-disabled')])).toEqual([['INPUT', value, true, false, 'true']]);
  boxes[0]!.focus();
  expect(document.activeElement).toBe(boxes[0]);
  const reasons = boxes[0]!.getAttribute('aria-describedby')!.split(' ').map((id) => document.getElementById(id)!);
  expect(reasons[0]!.textContent).toBe('set by your administrator');
  expect(reasons[0]!.title).toBe('/etc/godwit/policy.toml');
  expect(document.querySelector('label')!.getAttribute('for')).toBe(boxes[0]!.id);
  expect(save).not.toHaveBeenCalled();
  await gone();
});
