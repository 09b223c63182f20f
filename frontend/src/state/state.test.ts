import { describe, expect, it } from 'vitest';
import { address, parse } from './route.svelte';
import { inWords, label } from './settings.svelte';

describe('addresses', () => {
  it('come back as they were', () => {
    for (const hash of ['#/chat', '#/chat/12', '#/chat/12/34', '#/models', '#/models/hub', '#/settings/kv']) expect(address(parse(hash))).toBe(hash);
  });
  it('mean a new chat where they say nothing', () => {
    for (const hash of ['', '#', '#/', '#/x', '#/chat/x', '#/chat/-1', '#/chat/0']) expect(parse(hash)).toEqual({ view: 'chat', chat: 0, message: undefined });
  });
});

describe('names of settings', () => {
  it('are words', () => {
    expect(label('engine.ctx_size')).toBe('Context length');
    expect(label('server.some_thing')).toBe('Some thing');
  });
  it('stand in what the server refuses', () => {
    expect(inWords('engine.ctx_size: bad value: -7 is not 0 to 16777216')).toBe('Context length: -7 is not 0 to 16777216');
    expect(inWords('server.port was given on the command line')).toBe('Port was given on the command line');
  });
});
