import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { StreamLine } from '../events.ts';
import { BoundedStream } from './bounded-stream.ts';
import type { ControlLimits } from './control-limits.ts';
import type { SentFile } from './sent-file.ts';

export type StreamLimits = Pick<ControlLimits, 'aliveMs' | 'stalledMs' | 'maxBacklogBytes'>;

/** Sends the lines of an operation to one client, and a sign of life while there are none. */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #limits: StreamLimits;
  readonly #stream: BoundedStream;
  readonly #alive: NodeJS.Timeout;

  constructor(response: ServerResponse, limits: StreamLimits) {
    this.#response = response;
    this.#limits = limits;
    this.#stream = new BoundedStream(response, limits);
    this.#alive = setInterval(() => this.#write({ kind: 'alive' }), limits.aliveMs);
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
    response.flushHeaders();
  }

  send(line: StreamLine): void {
    this.#write(line, line.kind === 'event' && line.event.kind === 'transfer');
    this.#alive.refresh();
  }

  /** Sends the last line. Resolves when the client has everything, or was dropped. */
  async end(line: StreamLine, file?: SentFile): Promise<void> {
    clearInterval(this.#alive);
    this.#write(line);
    await endResponse(this.#response, this.#limits.stalledMs, file);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#alive);
    this.#stream[Symbol.dispose]();
  }

  #write(line: StreamLine, isPassing = false): void {
    this.#stream.write(`${JSON.stringify(line)}\n`, isPassing);
  }
}

/**
 * Ends a response. A client that does not read it in time is dropped. A client that is still sending a file disconnects
 * when it has read the response; if the connection ended before that, the response could be lost.
 */
export async function endResponse(response: ServerResponse, stalledMs: number, file?: SentFile): Promise<void> {
  if (response.destroyed) return;
  const closed = new AbortController();
  const timer = setTimeout(() => response.destroy(), stalledMs);
  const end = once(response, 'close');
  response.once('close', () => closed.abort());
  await file?.discard(closed.signal).catch(() => {});
  response.end();
  await end;
  clearTimeout(timer);
}
