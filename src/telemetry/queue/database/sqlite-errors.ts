import { describeError } from '../../../system/errors.ts';
import { TelemetryError } from '../../errors.ts';

/** Primary result codes: sqlite.org/rescode.html. */
const damaged: ReadonlySet<number> = new Set([1, 11, 26]);
const FULL = 13;

/** Runs work on the database. Throws errors of SQLite as TelemetryErrors. */
export function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw queueError(error);
  }
}

/** Translates an error of SQLite; any other error is returned unchanged. */
export function queueError(error: unknown): unknown {
  // node:sqlite, of a number that no queue has written
  if (error instanceof RangeError) return new TelemetryError('queue-damaged', 'the queue is damaged', error);
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error;
  const primary = error.errcode & 0xff;
  const why = describeError(error);
  if (damaged.has(primary)) return new TelemetryError('queue-damaged', `the queue is damaged: ${why}`, error);
  if (primary === FULL) return new TelemetryError('queue-full', 'the queue cannot be written: the disk is full', error);
  return new TelemetryError('queue-unwritable', `the queue cannot be used: ${why}`, error);
}
