import { join } from 'node:path';

import * as z from 'zod';

import { historyAttempt } from '../../control/history.ts';
import type { HistoryAttempt, HistoryReport } from '../../control/history.ts';
import { nodeFs, readTextFile, replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { parsedJson } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { EventType, UpdateState } from '../../update/journal/state.ts';
import { withMissingOutcomes, historyOf, applyEvent } from './derive-history.ts';
import type { JournalChange } from './derive-history.ts';

const MAX_ATTEMPTS = 50;

interface Kept {
  readonly attempts: readonly HistoryAttempt[];
  /** The number of attempts before these, which were forgotten. */
  readonly discarded: number;
}

export interface HistoryDeps {
  readonly stateDirectory: string;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Log;
  readonly fs?: DurableFs;
  /** Default: true. */
  readonly hasSlots?: boolean | undefined;
}

/**
 * Guarantee `history`: `history.json` in the state directory, the last attempts with their steps, across updates and
 * restarts. A history that cannot be kept never stops the attempt. Where it contradicts the journal, the journal is
 * right.
 */
export class History {
  readonly #deps: HistoryDeps;
  readonly #path: string;
  readonly #fs: DurableFs;
  #kept: Kept | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(deps: HistoryDeps) {
    this.#deps = deps;
    this.#path = join(deps.stateDirectory, 'history.json');
    this.#fs = deps.fs ?? nodeFs;
  }

  /** Notes a step. When this resolves, it is durable if the disk takes it and the process may end after this step. */
  async note(happened: Omit<JournalChange, 'at'>): Promise<void> {
    const turn = this.#last.then(async () => this.#attempt(happened));
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** The report of all attempts. Writes nothing, so that a mere look may call it. */
  async report(state: UpdateState): Promise<HistoryReport> {
    await this.#last;
    const { attempts, discarded } = this.#kept ?? (await this.#read());
    return historyOf(attempts, discarded, state);
  }

  /** The attempts for a report that also contains other things; empty if they cannot be read. */
  async known(state: UpdateState): Promise<HistoryReport['attempts']> {
    try {
      return (await this.report(state)).attempts;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      return [];
    }
  }

  async #attempt(happened: Omit<JournalChange, 'at'>): Promise<void> {
    const { clock, log } = this.#deps;
    const { before, event } = happened;
    try {
      const kept = (this.#kept ??= await this.#load(before));
      const at = new Date(clock.nowMs()).toISOString();
      const attempts = applyEvent(kept.attempts, { ...happened, at }, this.#deps.hasSlots);
      if (attempts === kept.attempts) return;
      this.#kept = bounded({ ...kept, attempts });
      if (!waits.has(event.type)) await replaceFileDurably(this.#path, JSON.stringify(this.#kept), this.#fs);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      log.warn({ code: error.code }, `the history of attempts cannot be kept: ${error.message}`);
    }
  }

  async #load(state: UpdateState): Promise<Kept> {
    const found = await this.#read();
    return bounded({ ...found, attempts: withMissingOutcomes(found.attempts, state) });
  }

  /** Reads attempt by attempt, so that an unreadable one does not cost the others. */
  async #read(): Promise<Kept> {
    const text = await readTextFile(this.#path, this.#fs);
    const found = text === undefined ? undefined : stored.safeParse(parsedJson(text)).data;
    if (text !== undefined && found === undefined) {
      this.#deps.log.warn({ path: this.#path }, 'the history of attempts is damaged, and begins anew');
    }
    const attempts = (found?.attempts ?? []).flatMap((one) => {
      const { data } = storedAttempt.safeParse(one);
      return data === undefined ? [] : [data];
    });
    return { attempts: attempts.slice(-MAX_ATTEMPTS), discarded: found?.discarded ?? 0 };
  }
}

/** Keeps members that a newer agent added. */
const storedAttempt = historyAttempt.loose();
const stored = z.object({
  attempts: z.array(z.unknown()),
  discarded: z.int().nonnegative().catch(0),
});

/** Steps that are only written with the next one, which follows soon; this spares the flash memory a write. */
const waits: ReadonlySet<EventType> = new Set<EventType>([
  'slot-opened',
  'health-check-started',
  'approved',
  'board-write-started',
  'board-flashed',
  'restoring',
  'board-restored',
]);

function bounded({ attempts, discarded }: Kept): Kept {
  const over = Math.max(0, attempts.length - MAX_ATTEMPTS);
  return { attempts: attempts.slice(over), discarded: discarded + over };
}
