import { existsSync, renameSync, rmSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';

import { describeError } from '../../../system/errors.ts';
import type { Log } from '../../../system/log/log.ts';
import { TelemetryError } from '../../errors.ts';
import type { FlashWear } from '../flash-wear.ts';
import { QueueDatabase } from './queue-database.ts';
import { readIfWhole, salvage } from './salvage.ts';
import type { InMemoryState } from './salvage.ts';

export interface QueueFileDeps {
  readonly path: string;
  /** The bytes that stay free on this file system, for the agent's own state. */
  readonly minFreeBytes: number;
  readonly flash: FlashWear;
  readonly monotonicMs: () => number;
  readonly log: Log;
  readonly remembered: () => InMemoryState;
  /** Called with each opened database, and with the number of datapoints that a damaged one has lost. */
  readonly onOpen: (db: QueueDatabase, lostPoints: number) => void;
  readonly open?: ((path: string) => QueueDatabase) | undefined;
}

/** The pause between two attempts on a disk that failed. */
const RETRY_MS = 30_000;

/** The file of the queue, with everything that can happen to it. It may be missing; no method ever throws. */
export class QueueFile implements Disposable {
  readonly #deps: QueueFileDeps;
  #db: QueueDatabase | undefined;
  #trouble: string | undefined;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #isDamaged = false;
  #minFreeBytes: number;

  constructor(deps: QueueFileDeps) {
    this.#deps = deps;
    this.#minFreeBytes = deps.minFreeBytes;
  }

  /** The next write is tried immediately, and may use half of the space that stays free otherwise. */
  allowLastWrite(): void {
    this.#retryAtMs = Number.NEGATIVE_INFINITY;
    this.#minFreeBytes = this.#deps.minFreeBytes / 2;
  }

  /** The reason why nothing can be stored now. Undefined if it can. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  [Symbol.dispose](): void {
    this.#db?.[Symbol.dispose]();
    this.#db = undefined;
  }

  /** Does work in one transaction. Returns false if it did not happen. `grows`: it needs room. */
  write(grows: boolean, work: (db: QueueDatabase) => void): boolean {
    const write = (db: QueueDatabase): boolean => {
      this.#deps.flash.measure(() => db.transaction(() => work(db)));
      return true;
    };
    return this.#use(grows, write, false);
  }

  read<T>(work: (db: QueueDatabase) => T, otherwise: T): T {
    return this.#use(false, work, otherwise);
  }

  #use<T>(grows: boolean, work: (db: QueueDatabase) => T, otherwise: T, mayRepair = true): T {
    try {
      const db = this.#ready(grows);
      if (db === undefined) return otherwise;
      const result = work(db);
      if (grows) this.#well();
      return result;
    } catch (error) {
      this.#failed(error);
      return mayRepair && isDamage(error) ? this.#use(grows, work, otherwise, false) : otherwise;
    }
  }

  #ready(grows: boolean): QueueDatabase | undefined {
    const { path, monotonicMs } = this.#deps;
    const waits = this.#trouble !== undefined && monotonicMs() < this.#retryAtMs;
    if (waits && (grows || this.#db === undefined)) return undefined;
    this.#db ??= this.#open();
    if (grows && freeBytes(path) < this.#minFreeBytes) {
      throw new TelemetryError('queue-full', `less than ${this.#minFreeBytes} bytes are free next to ${path}`);
    }
    return this.#db;
  }

  #open(): QueueDatabase {
    const { path, flash, onOpen, open = openDatabase } = this.#deps;
    if (!existsSync(path) && existsSync(savedOf(path))) exchange(path);
    if (!this.#isDamaged) {
      let db: QueueDatabase | undefined;
      try {
        db = open(path);
        onOpen(db, 0);
        return db;
      } catch (error) {
        db?.[Symbol.dispose]();
        if (!isDamage(error)) throw error;
        this.#deps.log.error({ code: error.code }, `${error.message}; its readable rows are saved`);
      }
    }
    const [db, lost] = flash.measure(() => this.#renew());
    this.#isDamaged = false;
    onOpen(db, lost);
    return db;
  }

  /**
   * Saves the readable rows next to the damaged file, which is set aside only then and replaces the one before. Guarantee
   * `datapoints`: a salvage that is interrupted, or finds no room, starts again.
   */
  #renew(): [QueueDatabase, number] {
    const { path, log, open = openDatabase, remembered } = this.#deps;
    remove(savedOf(path));
    let lost = remembered().points;
    try {
      using fresh = open(savedOf(path));
      const damaged = readIfWhole(() => QueueDatabase.openDamaged(path));
      try {
        if (damaged !== undefined) lost = salvage(damaged, fresh, remembered());
      } finally {
        readIfWhole(() => damaged?.[Symbol.dispose]());
      }
    } catch (error) {
      remove(savedOf(path));
      throw error;
    }
    remove(asideOf(path));
    exchange(path);
    log.warn({ lost, aside: asideOf(path) }, 'the queue was damaged; its readable rows were saved');
    return [open(path), lost];
  }

  #well(): void {
    if (this.#trouble !== undefined) this.#deps.log.info({}, 'the queue is on disk again');
    this.#trouble = undefined;
  }

  #failed(error: unknown): void {
    const { log, monotonicMs } = this.#deps;
    const damage = isDamage(error);
    if (!damage && !isTrouble(error)) throw error;
    if (!isTrouble(error) || error.code !== 'queue-full') this[Symbol.dispose]();
    if (this.#trouble === undefined) {
      log.error({ error: describeError(error) }, 'the queue cannot be written; datapoints stay in memory');
    }
    this.#trouble = describeError(error);
    this.#retryAtMs = damage ? Number.NEGATIVE_INFINITY : monotonicMs() + RETRY_MS;
    this.#isDamaged ||= damage;
  }
}

const suffixes = ['', '-wal', '-shm'];

function asideOf(path: string): string {
  return `${path}.damaged`;
}

/** The file that a salvage writes. It is complete once the damaged file was moved away. */
function savedOf(path: string): string {
  return `${path}.saved`;
}

function remove(path: string): void {
  for (const suffix of suffixes) rmSync(`${path}${suffix}`, { force: true });
}

function exchange(path: string): void {
  for (const suffix of suffixes) {
    if (existsSync(`${path}${suffix}`)) renameSync(`${path}${suffix}`, `${asideOf(path)}${suffix}`);
  }
  renameSync(savedOf(path), path);
}

const openDatabase = (path: string): QueueDatabase => QueueDatabase.open(path);

function isDamage(error: unknown): error is TelemetryError {
  return error instanceof TelemetryError && error.code === 'queue-damaged';
}

/** True if an error, of SQLite or of the file system, means that the disk cannot be used for now. */
function isTrouble(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && !error.code.startsWith('ERR_');
}

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path));
  return bavail * bsize;
}
