import { join } from 'node:path';

import * as z from 'zod';

import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { securityEvent } from '../../control/security/security-events.ts';
import type { SecurityReport } from '../../control/security/security-events.ts';
import { describeError } from '../../system/errors.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { DurableList } from '../../system/files/durable-list.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';

const MAX_EVENTS = 256;
const MAX_DETAIL_LENGTH = 400;
/** Repetitions within this time are only counted, so that they cannot wear out the flash memory. */
const PAUSE_MS = 3_600_000;

const keptLog = z.object({
  events: z.array(securityEvent).max(2 * MAX_EVENTS),
  /** The last value seen in effect, by kind. */
  seen: z.record(z.string(), z.string()).default({}),
});

type KeptLog = z.infer<typeof keptLog>;

export interface SecurityLogDeps {
  readonly stateDirectory: string;
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly log: Log;
  /** Called when an event was added. */
  readonly onEvent?: (() => void) | undefined;
  readonly fs?: DurableFs;
}

/** The functions that note what concerns security. */
export type SecurityRecorder = Pick<SecurityLog, 'record' | 'recordOnce' | 'compare'>;

/**
 * Guarantee `security-log`: `security.json` in the state directory, the last events that concern security, across updates
 * and restarts. Repetitions within an hour are counted, and written with the next event. A log that cannot be kept
 * never stops what it records.
 */
export class SecurityLog {
  readonly #deps: SecurityLogDeps;
  readonly #list: DurableList<KeptLog>;
  readonly #path: string;
  /** The events of the last hour. */
  readonly #begun = new Map<string, { readonly number: number; readonly atMs: number }>();

  constructor(deps: SecurityLogDeps) {
    this.#deps = deps;
    this.#path = join(deps.stateDirectory, 'security.json');
    this.#list = new DurableList({
      ...deps,
      path: this.#path,
      title: 'the log of security events',
      empty: () => ({ events: [], seen: {} }),
      parse: (value) => keptLog.safeParse(value).data,
    });
  }

  /** Records an event. It is durable when this resolves, if the disk takes it. */
  async record(id: SecurityEventId, detail: string): Promise<void> {
    return this.#change((kept) => this.#add(kept, id, detail));
  }

  /**
   * Records the event if the value in effect differs from the last one seen, even before this start. The first time
   * there is no comparison.
   */
  async compare(id: SecurityEventId, now: string, detail: string): Promise<void> {
    return this.#change((kept) => {
      const before = kept.seen[id];
      if (before === now) return false;
      kept.seen[id] = now;
      if (before !== undefined) this.#add(kept, id, detail);
      return true;
    });
  }

  /** Records the event unless the same `which` was the last to be recorded like this, even before this start. */
  async recordOnce(id: SecurityEventId, which: string, detail: string): Promise<void> {
    return this.#change((kept) => {
      if (kept.seen[id] === which) return false;
      kept.seen[id] = which;
      this.#add(kept, id, detail);
      return true;
    });
  }

  /**
   * Returns all events. Writes nothing, so that a read-only command may call it. For a damaged log it contains the
   * event with which the log starts again.
   */
  async report(): Promise<SecurityReport> {
    const { content, from } = await this.#list.read();
    const events = from === 'damaged file' ? [this.#eventOf(1, 'log-damaged', this.#path)] : content.events;
    return { events: [...events], discarded: (events[0]?.number ?? 1) - 1 };
  }

  /** Changes the log. `work` returns true if something must be written. */
  async #change(work: (kept: KeptLog) => boolean): Promise<void> {
    let isNew = false;
    await this.#list.change(({ content: kept, from }) => {
      const before = lastNumber(kept);
      if (from === 'damaged file') this.#add(kept, 'log-damaged', this.#path);
      const isChanged = work(kept);
      isNew = lastNumber(kept) !== before;
      return [kept, isChanged || isNew];
    });
    if (isNew) this.#deps.onEvent?.();
  }

  /** Returns true if the event is new, false if it only repeats one of the last hour. */
  #add(kept: KeptLog, id: SecurityEventId, why: string): boolean {
    const { clock, log } = this.#deps;
    const event = this.#eventOf(lastNumber(kept) + 1, id, why);
    const { number, at, detail } = event;
    const same = this.#recent(kept, `${id} ${detail}`);
    if (same !== undefined) {
      same.count += 1;
      same.lastAt = at;
      return false;
    }
    log.info({ security: id }, detail);
    kept.events.push(event);
    kept.events.splice(0, kept.events.length - MAX_EVENTS);
    this.#begun.set(`${id} ${detail}`, { number, atMs: clock.monotonicMs() });
    return true;
  }

  #eventOf(number: number, id: SecurityEventId, why: string): KeptLog['events'][number] {
    const at = new Date(this.#deps.clock.nowMs()).toISOString();
    return { number, id, at, detail: describeError(why).slice(0, MAX_DETAIL_LENGTH), count: 1, lastAt: at };
  }

  #recent({ events }: KeptLog, key: string): KeptLog['events'][number] | undefined {
    const oldestMs = this.#deps.clock.monotonicMs() - PAUSE_MS;
    for (const [name, { atMs }] of this.#begun) if (atMs < oldestMs) this.#begun.delete(name);
    const begun = this.#begun.get(key);
    return begun === undefined ? undefined : events.findLast(({ number }) => number === begun.number);
  }
}

function lastNumber({ events }: KeptLog): number {
  return events.at(-1)?.number ?? 0;
}
