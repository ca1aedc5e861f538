import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';

import { Shares } from '../access/shares.ts';
import type { PageLimits } from '../page-limits.ts';

type ViewerLimits = Pick<PageLimits, 'maxViewers' | 'aliveMs' | 'stalledMs' | 'maxBacklogBytes'>;

/** A piece of news; only its last version counts. */
interface News {
  readonly name: string;
  readonly version: string;
  readonly text: string;
}

/**
 * The viewers of the page (server-sent events). Each update is rendered once for all. A slow viewer misses intermediate
 * updates and is finally dropped; viewers do not wait for each other.
 */
export class Viewers implements Disposable {
  readonly #limits: ViewerLimits;
  readonly #viewers = new Set<Viewer>();
  readonly #shares: Shares<Viewer>;
  readonly #last = new Map<string, News>();
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
    const viewer = new Viewer(response, this.#limits, mayLook);
    this.#viewers.add(viewer);
    this.#shares.add(address, viewer)?.end();
    response.once('close', () => {
      viewer.leave();
      this.#viewers.delete(viewer);
      this.#shares.delete(address, viewer);
    });
    viewer.send([...this.#last.values()].map(({ text }) => text).join(''), false);
  }

  /** Tells all viewers, unless the value is the same as before. `isPassing`: the next value will follow soon. */
  tell(name: string, value: string, isPassing = false): void {
    const version = createHash('sha256').update(value).digest('base64url');
    if (this.#last.get(name)?.version === version) return;
    const text = `event: ${name}\n${value.replaceAll(/^/gm, 'data: ')}\n\n`;
    this.#last.set(name, { name, version, text });
    this.#toAll(text, isPassing);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#alive);
    for (const viewer of this.#viewers) viewer.end();
  }

  #toAll(text: string, isPassing: boolean): void {
    for (const viewer of this.#viewers) {
      if (viewer.mayLook()) viewer.send(text, isPassing);
      else viewer.end();
    }
  }
}

class Viewer {
  readonly #response: ServerResponse;
  readonly #limits: ViewerLimits;
  readonly mayLook: () => boolean;
  #stalled: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse, limits: ViewerLimits, mayLook: () => boolean) {
    this.#response = response;
    this.#limits = limits;
    this.mayLook = mayLook;
    response.on('drain', () => this.leave());
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 5000\n\n');
  }

  send(text: string, isPassing: boolean): void {
    const response = this.#response;
    if (response.destroyed || (isPassing && response.writableNeedDrain)) return;
    if (response.writableLength + text.length > this.#limits.maxBacklogBytes) {
      response.destroy();
      return;
    }
    if (!response.write(text)) this.#stalled ??= setTimeout(() => response.destroy(), this.#limits.stalledMs);
  }

  end(): void {
    this.leave();
    if (this.#response.writableNeedDrain) this.#response.destroy();
    else this.#response.end();
  }

  /** The viewer reads again, or has gone. */
  leave(): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
  }
}
