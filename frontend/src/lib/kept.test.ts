import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Later, forget, keep, kept, largest, most, places, room } from './kept';

const draft = (text: string) => ({ text });

/** Writes drafts one after another, a moment apart. */
function fill(list: [string, string][]) {
  list.forEach(([place, text], i) => {
    vi.spyOn(Date, 'now').mockReturnValue(1000 + i);
    keep(place, draft(text));
  });
}

describe('drafts', () => {
  beforeEach(() => localStorage.clear());

  it('come back as they were, and go where they are empty', () => {
    const files = [{ name: 'a.txt', type: 'text/plain', text: 'a' }];
    keep('chat.1', { ...draft(' one '), files });
    expect(kept('chat.1')).toEqual({ text: ' one ', files });
    expect(kept('chat.2')).toBeUndefined();
    keep('chat.1', draft(''));
    expect(localStorage.length).toBe(0);
  });

  it('are forgotten with their chat', () => {
    keep('chat.1', draft('one'));
    keep('edit.9', { ...draft('two'), chat: 'chat.1' });
    keep('chat.2', draft('three'));
    forget('chat.1');
    expect(places('')).toEqual(['chat.2']);
  });

  it('are held up to a number and a size, the newest first', () => {
    fill(Array.from({ length: most + 5 }, (_, i) => [`chat.${i}`, 'x']));
    expect(places('').length).toBe(most);
    expect(places('')[0]).toBe(`chat.${most + 4}`);
    expect(places('')).not.toContain('chat.4');
    localStorage.clear();
    fill(Array.from({ length: 6 }, (_, i) => [`chat.${i}`, 'x'.repeat(largest - 100)]));
    expect(places('').length).toBe(Math.floor(room / largest));
    expect(places('')[0]).toBe('chat.5');
  });

  it('leave out what is too large', () => {
    const files = [{ name: 'a.txt', type: 'text/plain', text: 'x'.repeat(largest) }];
    keep('chat.1', { ...draft('one'), files });
    expect(kept('chat.1')).toEqual(draft('one'));
    keep('chat.1', draft('x'.repeat(largest)));
    expect(kept('chat.1')).toBeUndefined();
  });

  it('last until the window closes where nothing can be stored', () => {
    vi.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
      throw new DOMException('full', 'QuotaExceededError');
    });
    keep('chat.1', draft('one'));
    expect(kept('chat.1')).toBeUndefined();
  });

  it('are written when the page goes', () => {
    const later = new Later();
    later.put('chat.1', () => draft('one'));
    later.put('chat.1', () => draft('two'));
    expect([later.has('chat.1'), kept('chat.1')]).toEqual([true, undefined]);
    dispatchEvent(new Event('pagehide'));
    expect([later.has('chat.1'), kept('chat.1')]).toEqual([false, draft('two')]);
  });
});
