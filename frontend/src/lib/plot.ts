// The plot of memory over the length of the context, in a part of its own.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { bytes, tokens } from './format';
import type { Outlook } from './types';

/** What a plot shows besides the curves. */
export interface Marks {
  /** The context that is set. */
  context: number;
  /** The largest that fits, 0 where that is not known. */
  most: number;
}

function colours(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/** The largest memory of the curves, and the limit where it is near enough to be drawn. */
export function range(o: Outlook): { top: number; limit: boolean } {
  const top = o.weights + Math.max(...o.curves.flatMap((c) => c.bytes), 1);
  const limit = o.budget > 0 && o.budget < 2 * top;
  return { top: 1.08 * (limit ? Math.max(top, o.budget) : top), limit };
}

/** Steps of an axis of bytes: round numbers of binary units. */
export function steps(top: number): number[] {
  let unit = 1;
  while (top / unit >= 1024) unit *= 1024;
  const raw = top / unit / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * power * ([1, 2, 5, 10].find((n) => n * power >= raw) ?? 10);
  const list: number[] = [];
  for (let at = 0; at <= top; at += step) list.push(at);
  return list;
}

/** Steps of an axis of tokens: powers of two between which there are two to eight lines. */
export function lengthSteps(most: number): number[] {
  let step = 1024;
  while (most / step > 8) step *= 2;
  const list: number[] = [];
  for (let at = 0; at <= most; at += step) list.push(at);
  return list;
}

/** Draws the plot into an element and returns what takes it away. */
export function draw(element: HTMLElement, o: Outlook, marks: Marks, onhover: (i: number | null) => void): () => void {
  const colour = colours(element);
  const { top, limit } = range(o);
  const font = `12px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), size: 4 }, font };
  const lines = [
    { stroke: colour('--plot-1'), width: 2.5 },
    { stroke: colour('--plot-2'), width: 1.5, dash: [6, 4] },
    { stroke: colour('--plot-3'), width: 1.5, dash: [2, 3] },
  ];
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: element.clientHeight,
    padding: [12, 16, 0, 0],
    pxAlign: 0,
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    legend: { show: false },
    scales: { x: { time: false, range: [0, o.context] }, y: { range: [0, top] } },
    axes: [
      { ...axis, splits: () => lengthSteps(o.context), values: (_, list) => list.map((n) => (n === 0 ? '0' : tokens(n))) },
      { ...axis, size: 72, splits: () => steps(top), values: (_, list) => list.map((n) => (n === 0 ? '0' : bytes(n))) },
    ],
    series: [{}, ...o.curves.map((c, i) => ({ label: c.name, ...lines[i % lines.length], fill: i === 0 ? `color-mix(in srgb, ${colour('--plot-1')} 9%, transparent)` : undefined, points: { show: false } }))],
    hooks: {
      draw: [
        (u) => {
          if (limit) rule(u, 'y', o.budget, colour('--bad'), 'free memory', font);
          if (marks.context > 0 && marks.context <= o.context) rule(u, 'x', marks.context, colour('--text'), '', font);
          if (marks.most > 0 && marks.most < o.context) rule(u, 'x', marks.most, colour('--good'), 'fits', font);
        },
      ],
      setCursor: [(u) => onhover(u.cursor.idx ?? null)],
    },
  };
  const data = [o.lengths, ...o.curves.map((c) => c.bytes.map((n) => n + o.weights))] as uPlot.AlignedData;
  const plot = new uPlot(options, data, element);
  const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: element.clientHeight }));
  observer.observe(element);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}

function rule(u: uPlot, axis: 'x' | 'y', value: number, colour: string, text: string, font: string) {
  const { ctx, bbox } = u;
  const at = Math.round(u.valToPos(value, axis, true)) + 0.5;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  if (axis === 'x') {
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
  } else {
    ctx.moveTo(bbox.left, at);
    ctx.lineTo(bbox.left + bbox.width, at);
  }
  ctx.stroke();
  if (text) {
    ctx.font = font.replace('12px', `${11 * ratio}px`);
    if (axis === 'y') ctx.fillText(text, bbox.left + 8 * ratio, at - 5 * ratio);
    else ctx.fillText(text, at + 5 * ratio, bbox.top + 12 * ratio);
  }
  ctx.restore();
}
