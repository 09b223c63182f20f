import type { Outlook } from './types';

/**
 * Returns the top of the memory axis, and whether the memory limit is close enough to the
 * curves to be drawn.
 */
export function range(o: Outlook): { top: number; limit: boolean } {
  const top = o.weights + Math.max(...o.curves.flatMap((c) => c.bytes), 1);
  const limit = o.budget > 0 && o.budget < 2 * top;
  return { top: 1.08 * (limit ? Math.max(top, o.budget) : top), limit };
}

/** Returns ticks for an axis in bytes, at round numbers of binary units. */
export function steps(top: number): number[] {
  let unit = 1;
  while (top / unit >= 1024) unit *= 1024;
  const raw = top / unit / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * power * ([1, 2, 2.5, 5, 10].find((n) => n * power >= raw) ?? 10);
  const list: number[] = [];
  for (let at = 0; at <= top; at += step) list.push(at);
  return list;
}

/**
 * Returns positions for labels near their wanted positions, lowest label first. Each label
 * is at least gap above the previous one, and all are between top and bottom if there is
 * room.
 */
export function spread(wanted: number[], gap: number, top: number, bottom: number): number[] {
  const list: number[] = [];
  for (const at of wanted) list.push(Math.min(at, (list.at(-1) ?? bottom + gap) - gap));
  for (let i = list.length - 1, least = top; i >= 0; i--, least += gap) list[i] = Math.max(list[i]!, least);
  return list;
}

/**
 * Returns the steps of an axis that have room for labels: all, every second, every fourth,
 * and so on.
 */
export function thin(list: number[], room: number, each: number): number[] {
  let step = 1;
  while (list.length / step > Math.max(room / each, 1)) step *= 2;
  return list.filter((_, i) => (list.length - 1 - i) % step === 0);
}

/**
 * Returns the steps of a logarithmic axis of tokens: the nine largest powers of two up to
 * most.
 */
export function lengthSteps(most: number): number[] {
  const list: number[] = [];
  for (let at = 1 << Math.floor(Math.log2(Math.max(most, 1))); at >= 64 && list.length < 9; at /= 2) list.unshift(at);
  return list;
}
