import { request } from './api';

export interface ServerEvent {
  name: string;
  data: string;
}

/** Splits a stream of server-sent events into events. */
export class EventParser {
  private rest = '';
  private name = '';
  private data: string[] = [];

  /** Returns the events that this piece completes. */
  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + piece).split('\n');
    this.rest = lines.pop() ?? '';
    for (let line of lines) {
      if (line.endsWith('\r')) line = line.slice(0, -1);
      if (line === '') {
        if (this.data.length > 0) events.push({ name: this.name || 'message', data: this.data.join('\n') });
        this.name = '';
        this.data = [];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      let value = colon < 0 ? '' : line.slice(colon + 1);
      if (value.startsWith(' ')) value = value.slice(1);
      if (field === 'event') this.name = value;
      if (field === 'data') this.data.push(value);
    }
    return events;
  }
}

/** Reads a stream of events until it ends or the signal aborts it. */
export async function* stream(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const answer = await request('GET', path, undefined, signal);
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}
