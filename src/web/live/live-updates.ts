import type { ServerResponse } from 'node:http';

import type { OperationEvent } from '../../control/events.ts';
import type { StatusReport } from '../../control/reports.ts';
import { describeError, undefinedIf } from '../../system/errors.ts';
import { availableOperations, blockedDigest, stepOf } from '../act/action-forms.ts';
import type { PageDeps } from '../page-deps.ts';
import { titleOf } from '../show/document.ts';
import { partNames, progressOf, renderParts } from '../show/parts.ts';
import { PageData } from './page-data.ts';
import type { Snapshot } from './page-data.ts';
import { Viewers } from './viewers.ts';

/** Gathers what the page shows, once for all requests and all viewers together. */
export class LiveUpdates implements AsyncDisposable {
  readonly #deps: PageDeps;
  readonly #data: PageData;
  readonly #viewers: Viewers;
  readonly #ending = new AbortController();
  #watch: Disposable | undefined;
  #sampling: Promise<void> | undefined;
  #telling: Promise<void> | undefined;
  #mustTellAgain = false;

  constructor(deps: PageDeps) {
    this.#deps = deps;
    this.#data = new PageData(deps);
    this.#viewers = new Viewers(deps.limits);
  }

  start(): void {
    this.#watch = this.#deps.runner.watch({
      onEvent: (event) => this.#noteEvent(event),
      onEnd: (outcome) => this.#noteEnd(outcome),
      onFailure: (error) => this.#noteEnd({ error }),
    });
    this.#sampling = undefinedIf((error) => error === ended, this.#sample(this.#ending.signal));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(ended);
    this.#watch?.[Symbol.dispose]();
    this.#viewers[Symbol.dispose]();
    await this.#sampling;
    await this.#telling;
  }

  /** The state as the viewers see it. */
  async snapshot(): Promise<Snapshot> {
    return this.#data.snapshot();
  }

  /** Returns the status of this moment, for a decision about it. */
  async currentStatus(): Promise<StatusReport> {
    this.#data.expire();
    return (await this.#data.snapshot()).status;
  }

  follow(response: ServerResponse, address: string, mayLook: () => boolean): void {
    this.#viewers.add(response, address, mayLook);
    this.scheduleBroadcast();
  }

  /**
   * Notifies the viewers of an operation's end. It counts as running until all its observers are notified, so this
   * waits a moment.
   */
  #noteEnd(end: Parameters<PageData['noteEnd']>[0]): void {
    this.#data.noteEnd(end);
    setImmediate(() => this.noteChange());
  }

  #noteEvent(event: OperationEvent): void {
    if (event.kind === 'phase') this.noteChange();
    if (this.#viewers.count === 0) return;
    this.#viewers.tell('progress', progressOf(this.#deps.runner.activity).text, event.kind !== 'phase');
  }

  /** Discards the snapshot after an operator's change, and notifies the viewers. */
  noteChange(): void {
    this.#data.expire();
    this.scheduleBroadcast();
  }

  /** Notifies the viewers of a change. Repeated calls share the next snapshot. */
  scheduleBroadcast(): void {
    this.#mustTellAgain = true;
    this.#telling ??= this.#tell().finally(() => (this.#telling = undefined));
  }

  async #tell(): Promise<void> {
    while (this.#mustTellAgain && !this.#ending.signal.aborted) {
      this.#mustTellAgain = false;
      if (this.#viewers.count === 0) return;
      try {
        this.#broadcast(await this.#data.snapshot());
      } catch (error) {
        this.#deps.log.warn({ error: describeError(error) }, 'the web UI cannot be updated');
      }
    }
  }

  #broadcast(snapshot: Snapshot): void {
    const parts = renderParts(snapshot);
    this.#viewers.tell('title', titleOf(snapshot));
    this.#viewers.tell('can', [...availableOperations(snapshot.status), stepOf(snapshot.status)].join(' '));
    this.#viewers.tell('version', blockedDigest(snapshot.status));
    for (const name of partNames) this.#viewers.tell(name, parts[name].text);
  }

  async #sample(signal: AbortSignal): Promise<void> {
    const { clock, limits } = this.#deps;
    for (;;) {
      await this.#refresh();
      await clock.sleep(limits.sampleMs, signal);
    }
  }

  /** Samples the sensors for their charts; everything else is collected only while there are viewers. */
  async #refresh(): Promise<void> {
    if (this.#viewers.count > 0) return this.scheduleBroadcast();
    try {
      await this.#data.sample();
    } catch (error) {
      this.#deps.log.warn({ error: describeError(error) }, 'the web UI cannot read the sensors');
    }
  }
}

const ended = new Error('the web UI is no longer served');
