// The plot of memory over context length, in a module that is loaded
// separately.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { lengthSteps, range, spread, steps, thin } from './axes';
import { budgetName, bytes, count, tokens } from './format';
import type { Outlook } from './types';
import * as msg from '../paraglide/messages.js';

/** Vertical marks of a plot, in tokens. */
export interface Marks {
  /** The configured context. */
  context: number;
  /** The largest context that fits, or 0 if unknown. */
  most: number;
}

function colours(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/** Draws the plot into an element and returns a function that removes it. */
export function draw(element: HTMLElement, o: Outlook, marks: Marks, onhover: (i: number | null) => void): () => void {
  const colour = colours(element);
  const { top, limit } = range(o);
  const longest = o.lengths.at(-1) ?? o.context;
  const font = `13px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), size: 4 }, font };
  const lines = [
    { stroke: colour('--plot-1'), width: 2.5 },
    { stroke: colour('--plot-2'), width: 1.5, dash: [6, 4] },
    { stroke: colour('--plot-3'), width: 1.5, dash: [2, 3] },
  ];
  const exact = o.exact.length > 0 ? o.exact : undefined;
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: element.clientHeight,
    padding: [12, 16, 0, 0],
    pxAlign: 0,
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    legend: { show: false },
    scales: { x: { time: false, distr: 3, log: 2, range: [Math.min(o.lengths[0] ?? 1, longest / 2), longest] }, y: { range: [0, top] }, exact: { range: [0, Math.max(...o.exact, 1)] } },
    axes: [
      { ...axis, size: 34, splits: () => thin(lengthSteps(longest), element.clientWidth - 88, 46), values: (_, list) => list.map((n) => tokens(n)) },
      { ...axis, size: 72, splits: () => steps(top), values: (_, list) => list.map((n) => (n === 0 ? '0' : bytes(n))) },
      ...(exact ? [{ ...axis, scale: 'exact', side: 1 as const, size: 64, grid: { show: false }, splits: () => [0, Math.max(...exact) / 2, Math.max(...exact)], values: (_: uPlot, list: number[]) => list.map((n) => count(Math.round(n))) }] : []),
    ],
    series: [{}, ...o.curves.map((c, i) => ({ label: c.name, ...lines[i % lines.length], fill: i === 0 ? `color-mix(in srgb, ${colour('--plot-1')} 9%, transparent)` : undefined, points: { show: false } })), ...(exact ? [{ label: msg.memory_plot_uncompressed(), scale: 'exact', stroke: colour('--good'), width: 1.5, points: { show: false } }] : [])],
    hooks: {
      draw: [
        (u) => {
          if (limit) band(u, o.budget, colour('--bad'), budgetName(o.machine), font);
          names(u, o, lines.map((line) => line.stroke), font);
          if (marks.context > 0 && marks.context <= longest) rule(u, 'x', marks.context, colour('--text'), '', font);
          if (marks.most > 0 && marks.most < longest) rule(u, 'x', marks.most, colour('--good'), msg.plot_fits(), font);
        },
      ],
      setCursor: [(u) => onhover(u.cursor.idx ?? null)],
    },
  };
  const data = [o.lengths, ...o.curves.map((c) => c.bytes.map((n) => n + o.weights)), ...(exact ? [exact] : [])] as uPlot.AlignedData;
  const plot = new uPlot(options, data, element);
  const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: element.clientHeight }));
  observer.observe(element);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}

/** Shades the area above a memory limit. */
function band(u: uPlot, limit: number, colour: string, text: string, font: string) {
  const { ctx, bbox } = u;
  const at = Math.max(bbox.top, u.valToPos(limit, 'y', true));
  ctx.save();
  ctx.globalAlpha = 0.13;
  ctx.fillStyle = colour;
  ctx.fillRect(bbox.left, bbox.top, bbox.width, at - bbox.top);
  ctx.restore();
  rule(u, 'y', limit, colour, msg.plot_beyond({ text }), font);
}

/** Writes the name of each curve at its right end. Names that would overlap are stacked. */
function names(u: uPlot, o: Outlook, colours: string[], font: string) {
  const { ctx, bbox } = u;
  const size = 13 * devicePixelRatio;
  const list = o.curves.map((c, i) => ({ text: i === 0 ? `${c.k} / ${c.v}` : c.name, colour: colours[i] ?? '', at: u.valToPos((c.bytes.at(-1) ?? 0) + o.weights, 'y', true) - 0.4 * size }));
  list.sort((a, b) => b.at - a.at);
  ctx.save();
  ctx.font = font.replace(/^\d+px/, `${size}px`);
  ctx.textAlign = 'right';
  const places = spread(list.map((name) => name.at), 1.15 * size, bbox.top + size, bbox.top + bbox.height - 0.4 * size);
  list.forEach(({ text, colour }, i) => {
    ctx.fillStyle = colour;
    ctx.fillText(text, bbox.left + bbox.width - 0.5 * size, places[i]!);
  });
  ctx.restore();
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
    ctx.font = font.replace(/^\d+px/, `${13 * ratio}px`);
    if (axis === 'y') ctx.fillText(text, bbox.left + 8 * ratio, at - 5 * ratio);
    else {
      const width = ctx.measureText(text).width;
      // Near the right edge, the label is to the left of its line and at the
      // bottom, because the names of the curves are on the right.
      const after = at + 10 * ratio + width < bbox.left + 0.7 * bbox.width;
      ctx.fillText(text, after ? at + 5 * ratio : at - 5 * ratio - width, bbox.top + (after ? 12 * ratio : bbox.height - 6 * ratio));
    }
  }
  ctx.restore();
}
