// The connection to the local server. The same calls work in a browser, where the
// page comes from that server, and in the window, where the page comes from the
// program and the server has another loopback address.

import type { Config } from './types';
import * as msg from '../paraglide/messages.js';

/** An error response, or no response at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let config: Config | undefined;
let known = ''; // the last key that the server accepted

/** Loads the server's address and token. Without a key, sends the last accepted one, if any. */
export async function connect(key = known): Promise<void> {
  const headers: Record<string, string> = key ? { 'X-Api-Key': key } : {};
  const answer = await send('app/config.json', { headers, cache: 'no-store' });
  const now = (await answer.json()) as Config;
  if (config && config.version !== now.version) location.reload(); // the server has a newer or older page
  config = now;
  known = key;
}

export function desktop(): boolean {
  return config?.desktop ?? false;
}

async function send(url: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (err) {
    if (init.signal?.aborted) throw err;
    throw new ApiError(0, 'offline', msg.api_cant_reach_godwit_is_it_still());
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** Reads the error in a response, whatever its form. */
async function refusal(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => '');
  try {
    const body = JSON.parse(text) as { error?: { message?: string; code?: string } | string };
    if (typeof body.error === 'string') return new ApiError(answer.status, '', body.error);
    if (body.error?.message) return new ApiError(answer.status, body.error.code ?? '', body.error.message);
  } catch {
    // not JSON
  }
  return new ApiError(answer.status, '', text.slice(0, 500) || msg.api_the_server_returned({ status: answer.status }));
}

/** Sends a request to any path of the server, such as the page's endpoints. */
export async function request(method: string, path: string, body?: unknown, signal?: AbortSignal, again = false): Promise<Response> {
  if (!config) throw new ApiError(0, 'offline', msg.api_not_connected());
  const headers: Record<string, string> = { Authorization: `Bearer ${config.token}` };
  let payload: BodyInit | undefined;
  if (body instanceof Blob) {
    headers['Content-Type'] = 'application/octet-stream';
    payload = body;
  } else if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    payload = JSON.stringify(body);
  }
  const at = config;
  try {
    return await send(at.base + path, { method, headers, body: payload, signal, cache: 'no-store', keepalive: method === 'DELETE' });
  } catch (err) {
    if (!(err instanceof ApiError && err.code === 'wrong_token') || again) throw err;
    if (config === at) await connect(); // the program was restarted and has a new token
    return request(method, path, body, signal, true);
  }
}

export async function call<T = void>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await request(method, path, body, signal);
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => call<T>('GET', path, undefined, signal);
export const post = <T = void>(path: string, body: unknown = {}) => call<T>('POST', path, body);
export const remove = (path: string) => call('DELETE', path);

/** Reports whether a word is the name of a model. The capitalisation of such a word is kept. */
export const names = { has: (_: string): boolean => false };

/** Returns an error's message as a sentence. A name at its start keeps its capitalisation. */
export function explain(err: unknown): string {
  const text = err instanceof Error ? err.message : String(err);
  const [first = ''] = /^\S*?(?=[,:;]?(?:\s|$))/.exec(text) ?? [];
  if (!/^[a-z]+$/.test(first) || names.has(first)) return text;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
