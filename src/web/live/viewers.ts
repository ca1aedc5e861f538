import type { ServerResponse } from 'node:http';

import { BoundedStream } from '../../control/server/bounded-stream.ts';
import { Shares } from '../access/shares.ts';
import type { PageLimits } from '../page-limits.ts';

type ViewerLimits = Pick<PageLimits, 'maxViewers' | 'aliveMs' | 'stalledMs' | 'maxBacklogBytes'>;

interface Viewer {
  readonly response: ServerResponse;
  readonly stream: BoundedStream;
  readonly mayLook: () => boolean;
}

/**
 * The viewers of the page (server-sent events). Each update is rendered once for all. A slow viewer misses intermediate
 * updates and is finally dropped; viewers do not wait for each other.
 */
export class Viewers implements Disposable {
  readonly #limits: ViewerLimits;
  readonly #viewers = new Set<Viewer>();
  readonly #shares: Shares<Viewer>;
  /** The last version of each piece of news; only that counts. */
  readonly #last = new Map<string, string>();
  readonly #alive: NodeJS.Timeout;

  constructor(limits: ViewerLimits) {
    this.#limits = limits;
    this.#shares = new Shares(limits.maxViewers, 'oldest');
    this.#alive = setInterval(() => this.#toAll(': alive\n\n', true), limits.aliveMs);
    this.#alive.unref();
  }

  get count(): number {
    return this.#viewers.size;
  }

  /**
   * Adds a viewer and sends the current state. The stream ends when the viewer loses access, or is replaced by another
   * one.
   */
  add(response: ServerResponse, address: string, mayLook: () => boolean): void {
    const viewer = { response, stream: new BoundedStream(response, this.#limits), mayLook };
    this.#viewers.add(viewer);
    const replaced = this.#shares.add(address, viewer);
    if (replaced !== undefined) end(replaced);
    response.once('close', () => {
      viewer.stream[Symbol.dispose]();
      this.#viewers.delete(viewer);
      this.#shares.delete(address, viewer);
    });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    viewer.stream.write(`retry: 5000\n\n${[...this.#last.values()].join('')}`);
  }

  /** Tells all viewers, unless the value is the same as before. `isPassing`: the next value will follow soon. */
  tell(name: string, value: string, isPassing = false): void {
    const text = `event: ${name}\n${value.replaceAll(/^/gm, 'data: ')}\n\n`;
    if (this.#last.get(name) === text) return;
    this.#last.set(name, text);
    this.#toAll(text, isPassing);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#alive);
    for (const viewer of this.#viewers) end(viewer);
  }

  #toAll(text: string, isPassing: boolean): void {
    for (const viewer of this.#viewers) {
      if (viewer.mayLook()) viewer.stream.write(text, isPassing);
      else end(viewer);
    }
  }
}

function end({ response, stream }: Viewer): void {
  stream[Symbol.dispose]();
  if (response.writableNeedDrain) response.destroy();
  else response.end();
}
