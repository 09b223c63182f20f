// Starts the real server on a separate folder, and simulates a model hub.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as listen } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

const binary = process.env.GODWIT_BIN ?? '../build/bin/godwit';

/** The file of the small real model, which `godwit pull demo` fetches. */
export function modelFile() {
  const data = process.env.XDG_DATA_HOME ?? join(homedir(), '.local', 'share');
  const path = process.env.GODWIT_MODEL ?? join(data, 'godwit', 'models', 'SmolLM2-135M-Instruct.Q4_1.gguf');
  if (!existsSync(path)) throw new Error(`no model at ${path}; run: godwit pull demo`);
  return path;
}

/**
 * Creates a user's folder with settings for sampling and the engine. Without a cache setting, the cache type is f16,
 * so that nothing is measured during a test. model adds the small model to the library, titles lets the model write
 * the titles of chats, and offers allows a recommendation for the model.
 */
export function newHome(model = true, settings = '', engine = '', titles = false, offers = false) {
  const home = mkdtempSync(join(tmpdir(), 'godwit-page-'));
  mkdirSync(join(home, 'data', 'models'), { recursive: true });
  if (model) symlinkSync(modelFile(), join(home, 'data', 'models', 'small.gguf'));
  if (!offers) writeFileSync(join(home, 'data', 'model-settings.json'), JSON.stringify({ version: 1, models: { [join(home, 'data', 'models', 'small.gguf')]: { answered: true } } }));
  writeFileSync(join(home, 'config.toml'), `[app]\nchat_titles = ${titles}\n[engine]\n${/^ctx_size/m.test(engine) ? '' : 'ctx_size = 4096\n'}${/^kv_/m.test(engine) ? '' : 'kv_preset = "off"\n'}${engine}\n[sampling]\ntemperature = 0.0\n${settings}`);
  return home;
}

/**
 * Makes a server's answers so long that none ends by itself. Tokens are drawn almost uniformly, so the
 * end-of-text token is hardly ever drawn. Returns a function that restores the settings.
 */
export async function ramble(server) {
  const { fields } = await server.api('GET', '/app/settings');
  const changes = { 'sampling.predict': null, 'sampling.temperature': 2, 'sampling.top_k': 0, 'sampling.top_p': 1, 'sampling.min_p': 0 };
  const usual = Object.fromEntries(fields.filter((f) => f.name in changes).map((f) => [f.name, f.value]));
  await server.api('POST', '/app/settings', { changes });
  return () => server.api('POST', '/app/settings', { changes: usual });
}

/** Returns a port for a server that will be restarted. The system does not assign the port to another program meanwhile. */
export async function lastingPort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000); // below the ports of outgoing connections
    const free = await new Promise((done) => {
      const probe = listen().once('error', () => done(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => done(true)));
    });
    if (free) return port;
  }
}

export async function serve(home, args = [], port = 0) {
  const child = spawn(binary, ['serve', '--ui', '--port', String(port), ...args], { env: { ...process.env, GODWIT_HOME: home } });
  let log = '';
  child.stderr.on('data', (piece) => (log += piece));
  let late;
  const listening = new Promise((resolve, reject) => {
    let out = '';
    child.stdout.on('data', (piece) => {
      out += piece;
      const found = /listening on (\S+)/.exec(out);
      if (found) resolve(found[1]);
    });
    child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
    late = setTimeout(() => {
      child.kill();
      reject(new Error(`the server does not listen: ${log}`));
    }, 60_000);
  });
  const url = await listening.finally(() => clearTimeout(late));
  const token = (await (await fetch(`${url}/app/config.json`)).json()).token;
  return {
    url,
    home,
    log: () => log,
    async api(method, path, body) {
      const raw = typeof body === 'string';
      const headers = { Authorization: `Bearer ${token}`, 'Content-Type': raw ? 'application/octet-stream' : 'application/json' };
      const answer = await fetch(url + path, { method, headers, body: body === undefined ? undefined : raw ? body : JSON.stringify(body) });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return text ? JSON.parse(text) : undefined;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((done) => child.on('exit', done));
      child.kill('SIGTERM');
      await ended;
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

/** Returns an import file with one chat of alternating messages. */
export function conversation(title, messages) {
  const stamp = '2026-01-01T00:00:00Z';
  return JSON.stringify({
    format: 'godwit-chats', version: 1,
    chats: [{
      title, folder: '', chosen: 1, model: 'small', system: '', settings: {}, created: stamp, updated: stamp,
      messages: messages.map((content, i) => ({
        id: i + 1, parent: i, chosen: i + 1 < messages.length ? i + 2 : 0, role: i % 2 ? 'assistant' : 'user', content, status: 'done', stats: {}, created: stamp, updated: stamp,
      })),
    }],
  });
}

/** The definition of a tool. */
export const weather = { type: 'function', function: { name: 'weather', description: 'Looks up the weather.', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };

/** The texts of a chat with 5,000 messages. */
export const manyMessages = () => Array.from({ length: 5000 }, (_, i) => `Message ${i}. ${'Some more words. '.repeat(1 + (i % 9))}`);

/** A GGUF file with only metadata: text and whole numbers. */
export function ggufOf(values) {
  const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
  const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
  const text = (s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
  const pairs = Object.entries(values).map(([key, v]) => Buffer.concat([text(key), typeof v === 'string' ? Buffer.concat([u32(8), text(v)]) : Buffer.concat([u32(4), u32(v)])]));
  return Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(pairs.length), ...pairs]);
}

/** A hub with one repository, whose file is the small model. While hub.slow is true, no download finishes. */
export async function playHub() {
  const data = readFileSync(modelFile());
  const sha256 = createHash('sha256').update(data).digest('hex');
  const repo = {
    id: 'birds/godwit-GGUF', sha: 'a'.repeat(40), downloads: 48211, likes: 312, lastModified: '2026-05-01T10:00:00.000Z', tags: ['gguf', 'license:apache-2.0'],
    siblings: [{ rfilename: 'godwit-Q4_1.gguf', size: data.length, lfs: { sha256, size: data.length } }],
  };
  const hub = { slow: false, ranges: 0, refuse: 0, spoil: false, asked: 0 };
  // Any other repository has the same file in two quantisations.
  const other = (id) => ({ ...repo, id, siblings: ['Q4_K_M', 'Q8_0'].map((quant) => ({ ...repo.siblings[0], rfilename: `${id.split('/')[1]}-${quant}.gguf` })) });
  const server = createServer((request, answer) => {
    const url = new URL(request.url, 'http://hub');
    hub.asked++;
    if (hub.refuse) {
      answer.writeHead(hub.refuse).end();
      return;
    }
    if (url.pathname.startsWith('/api/models')) {
      answer.setHeader('Content-Type', 'application/json');
      const id = /^\/api\/models\/([^/]+\/[^/]+)/.exec(url.pathname)?.[1];
      answer.end(JSON.stringify(id ? (id === repo.id ? repo : other(id)) : url.searchParams.get('search') === 'nothing' ? [] : [repo]));
      return;
    }
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    if (from > 0) hub.ranges++;
    answer.writeHead(from > 0 ? 206 : 200, {
      ETag: '"one"', 'Content-Length': data.length - from, ...(from > 0 ? { 'Content-Range': `bytes ${from}-${data.length - 1}/${data.length}` } : {}),
    });
    const stream = createReadStream(modelFile(), { start: from, highWaterMark: hub.slow ? 16 << 10 : 1 << 20 });
    stream.on('data', (piece) => {
      stream.pause();
      if (hub.spoil) piece[0] ^= 1;
      setTimeout(() => answer.write(piece, () => stream.resume()), hub.slow ? 100 : 0);
    });
    stream.on('end', () => answer.end());
    answer.on('close', () => stream.destroy());
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return Object.assign(hub, {
    url: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  });
}
