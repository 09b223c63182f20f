import type { Outlook } from './types';

/**
 * The highest memory value of the curves, and the memory limit if it is close enough to be
 * drawn.
 */
export function range(o: Outlook): { top: number; limit: boolean } {
  const top = o.weights + Math.max(...o.curves.flatMap((c) => c.bytes), 1);
  const limit = o.budget > 0 && o.budget < 2 * top;
  return { top: 1.08 * (limit ? Math.max(top, o.budget) : top), limit };
}

/** Ticks of an axis in bytes, at round numbers of binary units. */
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

/** Ticks of a logarithmic axis in tokens: at most nine powers of two up to the maximum. */
export function lengthSteps(most: number): number[] {
  const list: number[] = [];
  for (let at = 1 << Math.floor(Math.log2(Math.max(most, 1))); at >= 64 && list.length < 9; at /= 2) list.unshift(at);
  return list;
}
