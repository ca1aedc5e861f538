import type { ServerResponse } from 'node:http';

import type { OperationEvent } from '../../control/events.ts';
import type { OffsetMinutes, When } from '../../control/presentation/time.ts';
import type { Performer } from '../../control/server/perform.ts';
import { describeError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { availableOperations, blockedDigest, stepOf } from '../act/action-forms.ts';
import type { PageLimits } from '../page-limits.ts';
import { document, nameOf } from '../show/document.ts';
import type { ViewerForms } from '../show/document.ts';
import type { Html } from '../show/html.ts';
import { partNames, progressOf, renderParts, sentenceOf } from '../show/parts.ts';
import { PageData } from './page-data.ts';
import type { Snapshot } from './page-data.ts';
import { Viewers } from './viewers.ts';

export interface LiveNewsDeps extends Performer {
  readonly log: Log;
  readonly clock: Clock;
  readonly localOffset: OffsetMinutes;
  readonly limits: PageLimits;
}

/** The forms of this viewer, or undefined if read-only. */
export interface ForViewer {
  readonly actions: ((status: Snapshot['status']) => ViewerForms) | undefined;
  readonly leave: Html | undefined;
}

/** Gathers what the page shows, once for all requests and all viewers together. */
export class LiveUpdates implements AsyncDisposable {
  readonly #deps: LiveNewsDeps;
  readonly #data: PageData;
  readonly #viewers: Viewers;
  readonly #ending = new AbortController();
  #watch: Disposable | undefined;
  #sampling: Promise<void> | undefined;
  #telling: Promise<void> | undefined;
  #mustTellAgain = false;

  constructor(deps: LiveNewsDeps) {
    this.#deps = deps;
    this.#data = new PageData({ ...deps, gatherMs: deps.limits.gatherMs });
    this.#viewers = new Viewers(deps.limits);
  }

  start(): void {
    this.#watch = this.#deps.runner.watch({
      onEvent: (event) => this.#noteEvent(event),
      onEnd: (outcome) => this.#noteEnd(outcome),
      onFailure: (error) => this.#noteEnd({ error }),
    });
    this.#sampling = this.#sample(this.#ending.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(ended);
    this.#watch?.[Symbol.dispose]();
    this.#viewers[Symbol.dispose]();
    await this.#sampling;
    await this.#telling;
  }

  /** The whole page, with the forms that this viewer may use. */
  async page({ actions, leave }: ForViewer): Promise<Html> {
    const snapshot = await this.#data.snapshot(this.#deps.limits.freshMs);
    const when = this.#when(snapshot);
    return document(
      {
        status: snapshot.status,
        title: sentenceOf(snapshot, when).text,
        parts: renderParts(snapshot, when),
        atMs: snapshot.atMs,
        actions: actions?.(snapshot.status),
        leave,
      },
      when,
    );
  }

  /** The status as the viewers see it. */
  async status(): Promise<Snapshot['status']> {
    return (await this.#data.snapshot(this.#deps.limits.freshMs)).status;
  }

  follow(response: ServerResponse, address: string, mayLook: () => boolean): void {
    this.#viewers.add(response, address, mayLook);
    this.scheduleBroadcast();
  }

  #when({ atMs }: Snapshot): When {
    return { nowMs: atMs, localOffset: this.#deps.localOffset };
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
        this.#broadcast(await this.#data.snapshot(this.#deps.limits.freshMs));
      } catch (error) {
        this.#deps.log.warn({ error: describeError(error) }, 'the web UI cannot be updated');
      }
    }
  }

  #broadcast(snapshot: Snapshot): void {
    const when = this.#when(snapshot);
    const parts = renderParts(snapshot, when);
    this.#viewers.tell('title', `${nameOf(snapshot.status)}: ${sentenceOf(snapshot, when).text}`);
    this.#viewers.tell('can', [...availableOperations(snapshot.status), stepOf(snapshot.status)].join(' '));
    this.#viewers.tell('version', blockedDigest(snapshot.status));
    for (const name of partNames) this.#viewers.tell(name, parts[name].text);
  }

  async #sample(signal: AbortSignal): Promise<void> {
    const { clock, limits } = this.#deps;
    try {
      for (;;) {
        await this.#look();
        await clock.sleep(limits.sampleMs, signal);
      }
    } catch (error) {
      if (error !== ended) throw error;
    }
  }

  /** Samples the sensors for their charts; everything else is collected only while there are viewers. */
  async #look(): Promise<void> {
    if (this.#viewers.count > 0) return this.scheduleBroadcast();
    try {
      await this.#data.sample();
    } catch (error) {
      this.#deps.log.warn({ error: describeError(error) }, 'the web UI cannot read the sensors');
    }
  }
}

const ended = new Error('the web UI is no longer served');
