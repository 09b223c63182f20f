import { File } from 'node:buffer'; // jsdom's own File cannot be read
import { describe, expect, it } from 'vitest';
import { lengthSteps, range, spread, steps, thin } from './axes';
import { family, recommended } from './family';
import { fileName, readFiles } from './files';
import { budgetName, bytes, duration, join, parameters, progress, reuse, since, tokens } from './format';
import { EventParser } from './sse';
import type { Outlook } from './types';

describe('events', () => {
  const wire = 'event: text\ndata: {"a":1}\n\n: alive\n\ndata: one\ndata: two\n\nevent: end\r\ndata: {}\r\n\r\n';
  const want = [
    { name: 'text', data: '{"a":1}' },
    { name: 'message', data: 'one\ntwo' },
    { name: 'end', data: '{}' },
  ];

  it('are cut the same wherever the pieces end', () => {
    for (let size = 1; size <= wire.length; size++) {
      const parser = new EventParser();
      const got = [];
      for (let at = 0; at < wire.length; at += size) got.push(...parser.push(wire.slice(at, at + size)));
      expect(got, `pieces of ${size}`).toEqual(want);
    }
  });
});

describe('numbers for people', () => {
  it('counts bytes in binary units', () => {
    expect([0, 1023, 1024, 1536, 1 << 20, 2.5 * 2 ** 30].map(bytes)).toEqual(['0 B', '1,023 B', '1 KiB', '1.5 KiB', '1 MiB', '2.5 GiB']);
  });
  it('shortens tokens', () => {
    expect([512, 1000, 1024, 3005, 4096, 5000, 131072, 999_999, 1 << 20, 4_000_000, 16_000_000].map(tokens)).toEqual(['512', '1k', '1K', '3.01k', '4K', '5k', '128K', '1M', '1M', '4M', '16M']);
  });
  it('tells durations and sizes of models', () => {
    expect([12, 1500, 61_000, 3_700_000].map(duration)).toEqual(['12 ms', '1.5 s', '1 min 1 s', '1 h 1 min']);
    expect([134_515_008, 4e9, 512].map(parameters)).toEqual(['135M', '4B', '512']);
  });
  it('joins lists and the facts of a task', () => {
    expect([['a'], ['a', 'b'], ['a', 'b', 'c']].map(join)).toEqual(['a', 'a and b', 'a, b and c']);
    expect(progress('Setup', 0.256, 0)).toBe('Setup · 26%');
    expect(progress('Setup', 0.5, 90)).toBe('Setup · 50% · about 1 min 30 s left');
  });
  it('groups times by day', () => {
    const now = new Date(2026, 5, 15, 12);
    const ago = (days: number) => new Date(2026, 5, 15 - days, 9).toISOString();
    expect([0, 1, 3, 20, 90].map((d) => since(ago(d), now))).toEqual(['Today', 'Yesterday', 'Previous 7 days', 'Previous 30 days', 'Older']);
  });
});

describe('the plot', () => {
  it('has axes with round steps that reach the top', () => {
    for (const top of [1000, 5e6, 280e6, 3.2e9, 90e9, 2e12]) {
      const list = steps(top);
      expect(list.length, String(top)).toBeGreaterThan(3);
      expect(list.length, String(top)).toBeLessThan(12);
    }
    for (const most of [512, 2048, 8192, 131072, 1 << 20]) expect(lengthSteps(most).length, String(most)).toBeLessThan(10);
    expect(lengthSteps(40_960)).toEqual([128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768]);
  });
  it('names what bounds it', () => {
    const names = ['cpu', 'metal', 'cuda'].map((backend) => budgetName({ backend }));
    expect(names).toEqual(['free memory', 'GPU memory limit', 'free GPU memory']);
  });
  it('leaves out a limit that is far above', () => {
    const o = { weights: 100, curves: [{ bytes: [10, 900] }], budget: 5000 } as unknown as Outlook;
    expect(range(o)).toEqual({ top: 1080, limit: false });
    expect(range({ ...o, budget: 1500 }).limit).toBe(true);
  });
});

describe('files of a repository', () => {
  it('have one to begin with, which fits', () => {
    const file = (quant: string, size: number, fit = 'fits') => ({ quant, size, fit });
    expect(recommended([file('Q8_0', 8), file('Q4_K_M', 4), file('Q2_K', 2)])?.quant).toBe('Q4_K_M');
    expect(recommended([file('Q8_0', 8, 'tight'), file('Q4_K_M', 4, 'tight'), file('Q2_K', 2), file('Q3_K_M', 3)])?.quant).toBe('Q3_K_M');
    expect(recommended([file('UD-Q2_K_XL', 3), file('Q2_K', 2)])?.size).toBe(3);
    expect(recommended([file('Q4_K_M', 4, 'large')])).toBe(undefined);
  });
  it('are marked by family', () => {
    expect(family('qwen3').mark).toBe('Qw');
    expect(family('gemma3').hue).toBe(family('gemma').hue);
    expect(family('').mark).toBe('?');
  });
});

describe('labels of a plot', () => {
  it('keep apart at either edge', () => {
    expect(spread([90, 50, 10], 15, 10, 95)).toEqual([90, 50, 10]);
    expect(spread([99, 98, 97], 15, 10, 95)).toEqual([95, 80, 65]);
    expect(spread([12, 11, 3], 15, 10, 95)).toEqual([40, 25, 10]);
  });
  it('are left out where there is no room', () => {
    const all = lengthSteps(32_768);
    expect(thin(all, 900, 46)).toEqual(all);
    expect(thin(all, 280, 46)).toEqual([128, 512, 2048, 8192, 32_768]);
    expect(thin(all, 0, 46)).toEqual([32_768]);
  });
});

const files = (...list: File[]) => list as unknown as globalThis.File[];

describe('files', () => {
  it('are named so that every system takes them', () => {
    expect(fileName('a/b: "c"?\n')).toBe('a b c');
    expect(fileName('///')).toBe('chat');
    expect(fileName('Write a poem. ..')).toBe('Write a poem');
  });
  it('are text or refused', async () => {
    const text = new File(['package main\n'], 'main.go', { type: '' });
    expect(await readFiles(files(text))).toEqual([{ name: 'main.go', type: 'text/plain', text: 'package main\n' }]);
    await expect(readFiles(files(new File([new Uint8Array([0xff, 0xfe, 0])], 'x.png')))).rejects.toThrow('only text files are supported');
    await expect(readFiles(files(new File(['a\0b'], 'x.bin')))).rejects.toThrow('only text files are supported');
  });
});

describe('what of a prompt was reused', () => {
  it('says from where', () => {
    expect(reuse(900, 0, 0)).toBe('');
    expect(reuse(900, 800, 0)).toBe('800 of 900 prompt tokens cached in memory');
    expect(reuse(1900, 1800, 0, false)).toBe('1,800 of 1,900 prompt tokens cached');
    expect(reuse(900, 800, 800)).toBe('800 of 900 prompt tokens cached on disk');
    expect(reuse(900, 800, 300)).toBe('800 of 900 prompt tokens cached, 300 of them on disk');
  });
});
