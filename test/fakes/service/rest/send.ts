import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Fault } from '../faults.ts';
import type { Answer, AnswerBody } from './answer.ts';

/** Faults in the transfer of a reply, not in its content. */
type WireFault = Extract<Fault, { kind: Cut | 'not-http' | 'drip' | 'early-hints' }>;
type Cut = 'reset' | 'truncate' | 'silence';

const wireFaults: ReadonlySet<string> = new Set(['reset', 'truncate', 'silence', 'not-http', 'drip', 'early-hints']);

/** Sends an answer, spoiled by a fault if there is one. Returns when nothing more is going to be sent. */
export async function send(response: ServerResponse, answer: Answer, fault: Fault | undefined): Promise<void> {
  if (fault === undefined || !isWireFault(fault)) {
    await sendWhole(response, answer);
    return;
  }
  switch (fault.kind) {
    case 'reset':
    case 'truncate':
    case 'silence':
      await sendAndCut(response, answer, fault.kind, fault.afterBytes);
      break;
    case 'not-http':
      response.socket?.end(fault.text);
      break;
    case 'drip':
      writeHead(response, answer);
      await sendSlowly(response, bodyChunks(answer.body), fault.bytes, fault.everyMs);
      response.end();
      break;
    case 'early-hints':
      response.writeEarlyHints({ link: '</nothing>; rel=preload' });
      await sendWhole(response, answer);
  }
}

function isWireFault(fault: Fault): fault is WireFault {
  return wireFaults.has(fault.kind);
}

async function sendWhole(response: ServerResponse, answer: Answer): Promise<void> {
  writeHead(response, answer);
  await sendBody(response, bodyChunks(answer.body));
  response.end();
}

async function sendAndCut(
  response: ServerResponse,
  answer: Answer,
  kind: Cut,
  afterBytes: number | undefined,
): Promise<void> {
  if (afterBytes !== undefined) {
    writeHead(response, answer);
    await sendBody(response, firstBytes(bodyChunks(answer.body), afterBytes));
  }
  const { socket } = response;
  if (socket === null || kind === 'silence') return;
  await flushed(response);
  if (kind === 'reset') socket.resetAndDestroy();
  else socket.destroySoon();
}

function writeHead(response: ServerResponse, { status, headers, body }: Answer): void {
  const length = body.kind === 'bytes' && status !== 204 ? { 'content-length': String(body.bytes.byteLength) } : {};
  response.strictContentLength = false;
  response.writeHead(status, { ...length, ...headers });
  response.flushHeaders();
}

function* bodyChunks(body: AnswerBody): Generator<Buffer, void, undefined> {
  switch (body.kind) {
    case 'bytes':
      yield body.bytes;
      return;
    case 'text':
      yield* body.text.read(body.first, body.end);
      return;
    case 'filler':
      for (let left = body.bytes; left > 0; left -= filler.byteLength) yield filler.subarray(0, left);
  }
}

const filler = Buffer.alloc(64 * 1024, ' ');

function* firstBytes(chunks: Iterable<Buffer>, count: number): Generator<Buffer, void, undefined> {
  let left = count;
  for (const chunk of chunks) {
    if (left <= 0) return;
    yield chunk.subarray(0, left);
    left -= chunk.byteLength;
  }
}

async function sendBody(response: ServerResponse, chunks: Iterable<Buffer>): Promise<void> {
  for (const chunk of chunks) {
    if (response.destroyed) return;
    if (!response.write(chunk)) await drained(response);
  }
}

async function sendSlowly(
  response: ServerResponse,
  chunks: Iterable<Buffer>,
  bytes: number,
  everyMs: number,
): Promise<void> {
  for (const chunk of chunks) {
    for (let offset = 0; offset < chunk.byteLength; offset += bytes) {
      if (response.destroyed) return;
      response.write(chunk.subarray(offset, offset + bytes));
      await sleep(everyMs);
    }
  }
}

async function drained(response: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  response.once('drain', resolve).once('close', resolve);
  await promise;
  response.off('drain', resolve).off('close', resolve);
}

async function flushed(response: ServerResponse): Promise<void> {
  if (response.headersSent && !response.destroyed) {
    await new Promise<void>((resolve) => {
      response.write(Buffer.alloc(0), () => resolve());
      response.once('close', () => resolve());
    });
  }
}
