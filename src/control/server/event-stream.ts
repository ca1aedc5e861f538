import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { StreamLine } from '../events.ts';
import type { ControlLimits } from './control-limits.ts';
import type { SentFile } from './sent-file.ts';

export type StreamLimits = Pick<ControlLimits, 'aliveMs' | 'stalledMs' | 'maxBacklogBytes'>;

/**
 * Sends the lines of an operation to one client. A client that reads too slowly misses transfer events; a client with
 * too much unread data, or that reads nothing for too long, is dropped.
 */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #limits: StreamLimits;
  readonly #alive: NodeJS.Timeout;
  #stalled: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse, limits: StreamLimits) {
    this.#response = response;
    this.#limits = limits;
    this.#alive = setInterval(() => this.#write({ kind: 'alive' }), limits.aliveMs);
    response.on('drain', () => this.#reading());
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
    response.flushHeaders();
  }

  send(line: StreamLine): void {
    const droppable = line.kind === 'event' && line.event.kind === 'transfer';
    if (droppable && this.#response.writableNeedDrain) return;
    this.#write(line);
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
    clearTimeout(this.#stalled);
  }

  #write(line: StreamLine): void {
    if (this.#response.destroyed) return;
    const text = `${JSON.stringify(line)}\n`;
    if (this.#response.writableLength + text.length > this.#limits.maxBacklogBytes) {
      this.#response.destroy();
      return;
    }
    if (this.#response.write(text)) return;
    this.#stalled ??= setTimeout(() => this.#response.destroy(), this.#limits.stalledMs);
  }

  #reading(): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
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
