import { join } from 'node:path';

import * as z from 'zod';

import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { securityEvent } from '../../control/security/security-events.ts';
import type { SecurityReport } from '../../control/security/security-events.ts';
import { describeError } from '../../system/errors.ts';
import { nodeFs, readTextFile, replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
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
  readonly #path: string;
  readonly #fs: DurableFs;
  #kept: KeptLog | undefined;
  /** The events of the last hour. */
  readonly #begun = new Map<string, { readonly number: number; readonly atMs: number }>();
  /** The trouble that was logged; it is logged once until it ends. */
  #trouble: string | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(deps: SecurityLogDeps) {
    this.#deps = deps;
    this.#path = join(deps.stateDirectory, 'security.json');
    this.#fs = deps.fs ?? nodeFs;
  }

  /** Records an event. It is durable when this resolves, if the disk takes it. */
  async record(id: SecurityEventId, detail: string): Promise<void> {
    return this.#inTurn(async (kept) => this.#add(kept, id, detail));
  }

  /**
   * Records the event if the value in effect differs from the last one seen, even before this start. The first time
   * there is no comparison.
   */
  async compare(id: SecurityEventId, now: string, detail: string): Promise<void> {
    return this.#inTurn(async (kept) => {
      const before = kept.seen[id];
      if (before === now) return;
      kept.seen[id] = now;
      if (before === undefined) await this.#write(kept);
      else await this.#add(kept, id, detail);
    });
  }

  /** Records the event unless the same `which` was the last to be recorded like this, even before this start. */
  async recordOnce(id: SecurityEventId, which: string, detail: string): Promise<void> {
    return this.#inTurn(async (kept) => {
      if (kept.seen[id] === which) return;
      kept.seen[id] = which;
      await this.#add(kept, id, detail);
    });
  }

  /**
   * Returns all events. Writes nothing, so that a read-only command may call it. For a damaged log it contains the
   * event with which the log starts again.
   */
  async report(): Promise<SecurityReport> {
    await this.#last;
    const found = this.#kept ?? (await this.#read());
    const events = found === 'damaged' ? [this.#eventOf(1, 'log-damaged', this.#path)] : (found?.events ?? []);
    return { events: [...events], discarded: (events[0]?.number ?? 1) - 1 };
  }

  async #inTurn(work: (kept: KeptLog) => Promise<void>): Promise<void> {
    const turn = this.#last.then(async () => this.#attempt(work));
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #attempt(work: (kept: KeptLog) => Promise<void>): Promise<void> {
    try {
      await work((this.#kept ??= await this.#load()));
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      if (this.#trouble === error.message) return;
      this.#trouble = error.message;
      this.#deps.log.error({ code: error.code }, `the log of security events cannot be kept: ${error.message}`);
    }
  }

  async #load(): Promise<KeptLog> {
    const found = await this.#read();
    if (found !== 'damaged') return found ?? { events: [], seen: {} };
    const kept: KeptLog = { events: [], seen: {} };
    await this.#add(kept, 'log-damaged', this.#path);
    return kept;
  }

  /** Returns the log from its file, if there is one. */
  async #read(): Promise<KeptLog | 'damaged' | undefined> {
    const text = await readTextFile(this.#path, this.#fs);
    if (text === undefined) return undefined;
    try {
      return keptLog.parse(JSON.parse(text));
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof z.ZodError) return 'damaged';
      throw error;
    }
  }

  async #add(kept: KeptLog, id: SecurityEventId, why: string): Promise<void> {
    const { clock, log, onEvent } = this.#deps;
    const event = this.#eventOf((kept.events.at(-1)?.number ?? 0) + 1, id, why);
    const { number, at, detail } = event;
    const same = this.#recent(kept, `${id} ${detail}`);
    if (same !== undefined) {
      same.count += 1;
      same.lastAt = at;
      return;
    }
    log.info({ security: id }, detail);
    kept.events.push(event);
    kept.events.splice(0, kept.events.length - MAX_EVENTS);
    this.#begun.set(`${id} ${detail}`, { number, atMs: clock.monotonicMs() });
    await this.#write(kept);
    onEvent?.();
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

  async #write(kept: KeptLog): Promise<void> {
    await replaceFileDurably(this.#path, JSON.stringify(kept), this.#fs);
    this.#trouble = undefined;
  }
}
