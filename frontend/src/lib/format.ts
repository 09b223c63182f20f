// Formats numbers and times for display in English. If the browser's language
// is a kind of English, such as en-GB, its date format is used.

import * as msg from '../paraglide/messages.js';

function language(): string {
  try {
    const own = Intl.getCanonicalLocales(navigator.language)[0] ?? 'en';
    return own.split('-')[0] === 'en' ? own : 'en';
  } catch {
    return 'en'; // Intl does not support the language, for example "C"
  }
}

const locale = language();
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const dateOnly = new Intl.DateTimeFormat(locale, { dateStyle: 'medium' });
const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' });

export function count(n: number): string {
  return whole.format(n);
}

/** Formats a number with a useful number of digits. */
export function figure(n: number, digits = 3): string {
  return new Intl.NumberFormat(locale, { maximumSignificantDigits: Math.max(digits, 1) }).format(n);
}

/** Formats a share from 0 to 1 in whole percent. */
export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** Joins the items of a list in a sentence. */
export function join(items: string[]): string {
  return new Intl.ListFormat('en-GB').format(items);
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n: number): string {
  let unit = 0;
  while (Math.abs(n) >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit === 0 ? whole.format(n) : figure(n)} ${units[unit]}`;
}

/**
 * Returns the short form of a token count: 8K or 1M for multiples of 1,024 or
 * 1,048,576, as is usual for context lengths, and otherwise a decimal form such as 3.01k.
 */
export function tokens(n: number): string {
  if (n >= 1 << 20 && n % (1 << 20) === 0) return `${n >> 20}M`;
  if (n >= 1 << 10 && n < 1 << 20 && n % (1 << 10) === 0) return `${n >> 10}K`;
  if (n >= 999_500) return `${figure(n / 1e6)}M`;
  return n >= 1000 ? `${figure(n / 1000)}k` : String(n);
}

/** Names the memory of the model's device. It limits the size of weights and cache together. */
export function budgetName(machine: { backend: string }): string {
  if (machine.backend === 'metal') return msg.format_gpu_working_set();
  return machine.backend === 'cpu' ? msg.format_free_memory() : msg.format_free_gpu_memory();
}

/** Describes how much of a prompt was reused and from where. Returns '' if nothing was. */
export function reuse(prompt: number, cached: number, disk: number, source = true): string {
  if (cached <= 0) return '';
  const n = { cached: count(cached), prompt: count(prompt) };
  if (disk >= cached) return msg.format_cached_on_disk(n);
  if (disk > 0) return msg.format_cached_partly_on_disk({ ...n, disk: count(disk) });
  return source ? msg.format_cached_in_memory(n) : msg.format_cached(n);
}

export function parameters(n: number): string {
  if (n >= 1e9) return `${figure(n / 1e9, 2)}B`;
  if (n >= 1e6) return `${figure(n / 1e6, 3)}M`;
  return count(n);
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${figure(ms / 1000, 2)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Describes a task with its finished share, from 0 to 1, and the remaining seconds if they are known. */
export function progress(task: string, share: number, seconds: number): string {
  return [task, percent(share), seconds > 0 ? msg.about_left({ left_s: duration(1000 * seconds) }) : ''].filter(Boolean).join(' · ');
}

export function day(time: string): string {
  return dateOnly.format(new Date(time));
}

export function moment(time: string): string {
  return dateTime.format(new Date(time));
}

/** Returns the heading under which a time is listed. */
export function since(time: string, now = new Date()): string {
  const start = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const days = Math.ceil((start - new Date(time).getTime()) / 86_400_000);
  if (days <= 0) return msg.format_today();
  if (days === 1) return msg.format_yesterday();
  if (days <= 7) return msg.format_last_seven_days();
  if (days <= 30) return msg.format_last_thirty_days();
  return msg.format_older();
}
