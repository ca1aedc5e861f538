import type { ServerResponse } from 'node:http';

export interface BacklogLimits {
  readonly stalledMs: number;
  readonly maxBacklogBytes: number;
}

/**
 * Writes to one client. A client that reads too slowly misses what is passing; a client with too much unread data, or
 * that reads nothing for too long, is dropped.
 */
export class BoundedStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #limits: BacklogLimits;
  #stalled: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse, limits: BacklogLimits) {
    this.#response = response;
    this.#limits = limits;
    response.on('drain', () => this[Symbol.dispose]());
  }

  write(text: string, isPassing = false): void {
    const response = this.#response;
    if (response.destroyed || (isPassing && response.writableNeedDrain)) return;
    if (response.writableLength + text.length > this.#limits.maxBacklogBytes) response.destroy();
    else if (!response.write(text)) this.#stalled ??= setTimeout(() => response.destroy(), this.#limits.stalledMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
  }
}
