// Plays an answer at a fixed speed. A proxy in front of the real server writes one
// answer in place of a model, because a model would slow down the page that is
// measured.
import http from 'node:http';

/** Starts the proxy. play makes the last answer of a chat grow, starting at an offset of a text. */
export async function player(server, tokensPerSecond = 100) {
  let piece; // { text, from }: the answer, and the offset at which it starts to grow
  let message; // the answer's message, in the server's form
  const proxy = http.createServer((request, answer) => {
    if (piece && /^\/app\/messages\/\d+\/stream/.test(request.url)) return stream(answer);
    const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !/^(?:host|origin|referer|sec-)/.test(name)));
    const ahead = http.request(server.url + request.url, { method: request.method, headers }, (reply) => {
      if (piece && request.method === 'GET' && /^\/app\/chats\/\d+(?:\?|$)/.test(request.url)) return running(reply, answer);
      answer.writeHead(reply.statusCode, reply.headers);
      reply.pipe(answer);
    });
    ahead.on('error', () => answer.destroy());
    answer.on('close', () => ahead.destroy());
    request.pipe(ahead);
  });

  /** Sends the chat with its last answer unfinished. */
  async function running(reply, answer) {
    const body = JSON.parse((await reply.toArray()).join(''));
    message = body.messages.at(-1);
    body.messages[body.messages.length - 1] = { ...message, status: 'running', content: piece.text.slice(0, piece.from) };
    answer.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  }

  function stream(answer) {
    const { text, from } = piece;
    const send = (name, data) => answer.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    answer.writeHead(200, { 'Content-Type': 'text/event-stream' });
    send('text', { text: text.slice(0, from), reset: true });
    const tokens = text.slice(from).match(/[^]{1,4}/g) ?? [];
    const start = performance.now();
    let sent = 0;
    const timer = setInterval(() => {
      const due = Math.min(tokens.length, Math.floor(((performance.now() - start) * tokensPerSecond) / 1000));
      if (due > sent) send('text', { text: tokens.slice(sent, due).join('') });
      sent = due;
      if (sent < tokens.length) return;
      clearInterval(timer);
      piece = undefined;
      send('end', { ...message, content: text, status: 'done' });
      answer.end();
    }, 1000 / tokensPerSecond);
    answer.on('close', () => clearInterval(timer));
  }

  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    play(text, from) {
      piece = { text, from };
    },
    close() {
      proxy.closeAllConnections();
      proxy.close();
    },
  };
}
