import { join } from 'node:path';

import * as z from 'zod';

import { historyAttempt } from '../../control/history.ts';
import type { HistoryAttempt, HistoryReport } from '../../control/history.ts';
import { AgentError, valueOrError } from '../../system/errors.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { DurableList } from '../../system/files/durable-list.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { StateAfter } from '../../update/journal/reducer.ts';
import type { EventOf, EventType, UpdateState } from '../../update/journal/state.ts';
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
  readonly #list: DurableList<Kept>;

  constructor(deps: HistoryDeps) {
    const { stateDirectory, log, fs } = deps;
    this.#deps = deps;
    this.#list = new DurableList({
      path: join(stateDirectory, 'history.json'),
      fs,
      log,
      title: 'the history of attempts',
      empty: () => ({ attempts: [], discarded: 0 }),
      parse: parseKept,
    });
  }

  /** Records a step. When this resolves, it is durable if the disk takes it and the process may end after this step. */
  async note(happened: Omit<JournalChange, 'at'>): Promise<void> {
    const { clock, log, hasSlots } = this.#deps;
    const { before, event } = happened;
    return this.#list.change(({ content, from }) => {
      if (from === 'damaged file') log.warn({}, 'the history of attempts is damaged, and starts again');
      const known = from === 'memory' ? content.attempts : withMissingOutcomes(content.attempts, before);
      const at = new Date(clock.nowMs()).toISOString();
      const attempts = applyEvent(known, { ...happened, at }, hasSlots);
      return [bounded({ ...content, attempts }), attempts !== known && !waits.has(event.type)];
    });
  }

  /** Returns the report of all attempts. Writes nothing, so that a read-only command may call it. */
  async report(state: UpdateState): Promise<HistoryReport> {
    const { attempts, discarded } = (await this.#list.read()).content;
    return historyOf(attempts, discarded, state);
  }

  /** Returns the attempts for a report that also contains other things; empty if they cannot be read. */
  async known(state: UpdateState): Promise<HistoryReport['attempts']> {
    const report = await valueOrError(this.report(state));
    return report instanceof AgentError ? [] : report.attempts;
  }
}

/** Reads attempt by attempt, so that an unreadable one does not cost the others. */
function parseKept(value: unknown): Kept | undefined {
  const found = stored.safeParse(value).data;
  if (found === undefined) return undefined;
  const attempts = found.attempts.flatMap((one) => {
    const { data } = storedAttempt.safeParse(one);
    return data === undefined ? [] : [data];
  });
  return { attempts: attempts.slice(-MAX_ATTEMPTS), discarded: found.discarded };
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

/** Makes the journal note each event in the history once it is durable. */
export function withHistory(journal: Journal, history: Pick<History, 'note'>): Journal {
  const append = journal.append.bind(journal);
  return Object.assign(journal, {
    append: async <T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> => {
      const before = journal.state;
      const after = await append(event);
      await history.note({ event, before, after });
      return after;
    },
  });
}
