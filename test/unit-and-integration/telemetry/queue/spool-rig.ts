import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { silentLog } from '../../../../src/system/log/log.ts';
import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import type { NewPoint, PointClass } from '../../../../src/telemetry/point.ts';
import type { Batch, SpooledPoint } from '../../../../src/telemetry/queue/batch.ts';
import { SpoolDatabase } from '../../../../src/telemetry/queue/database/spool-database.ts';
import { FlashWear } from '../../../../src/telemetry/queue/flash-wear.ts';
import { DatapointQueue } from '../../../../src/telemetry/queue/spool.ts';
import type { SpoolDeps } from '../../../../src/telemetry/queue/spool.ts';
import { ManualClock } from '../../service/manual-clock.ts';

export const noEvents: ReadonlySet<string> = new Set();
const ample = { maxBytes: 2 ** 30, maxAgeMs: 2 ** 40 };
export const ampleBounds = { urgent: ample, normal: ample, bulk: ample, maxBytes: 2 ** 30 };

export interface RigOptions extends Partial<SpoolDeps> {
  readonly bootName?: string;
}

/** A spool in a directory of its own, a clock that stands still, and a disk that can fail. */
export class SpoolRig implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'spool-'));
  readonly clock = new ManualClock();
  readonly #options: RigOptions;
  /** The error of every transaction, while it is set. */
  failure: 'queue-full' | 'queue-unwritable' | undefined;
  bootName: string;
  #bootedAtMs: number;
  #lives = 0;
  path: string;
  spool: DatapointQueue;

  constructor(options: RigOptions = {}) {
    this.#options = options;
    this.bootName = options.bootName ?? 'boot-1';
    this.#bootedAtMs = this.clock.monotonicMs() - 20_000;
    this.path = join(this.directory, 'spool.db');
    this.spool = this.open();
  }

  open(): DatapointQueue {
    return new DatapointQueue({
      path: this.path,
      bounds: ampleBounds,
      minFreeBytes: 0,
      maxDeadLetters: 100,
      writeIntervalMs: 10_000,
      writePoints: 500,
      maxMemoryPoints: 10_000,
      maxMemoryBytes: 2 ** 24,
      maxFlashBytesPerDay: Number.POSITIVE_INFINITY,
      flash: new FlashWear(() => 0),
      clock: this.clock,
      boot: { name: this.bootName, sinceBootMs: () => this.clock.monotonicMs() - this.#bootedAtMs },
      log: silentLog,
      open: (path) => this.#failing(SpoolDatabase.open(path)),
      ...this.#options,
    });
  }

  get sinceBootMs(): number {
    return this.clock.monotonicMs() - this.#bootedAtMs;
  }

  /** Ends as with `kill -9`: data in memory is lost. `damage` is applied to the files. */
  crash(damage: (path: string) => void = () => {}): void {
    this.#lives += 1;
    const next = join(this.directory, `spool-${this.#lives}.db`);
    for (const suffix of ['', '-wal']) {
      if (existsSync(`${this.path}${suffix}`)) copyFileSync(`${this.path}${suffix}`, `${next}${suffix}`);
    }
    this.failure = 'queue-full';
    this.spool[Symbol.dispose]();
    this.failure = undefined;
    this.path = next;
    damage(next);
    this.spool = this.open();
  }

  /** A crash and another boot, whose clock is not set. */
  reboot(): void {
    this.bootName = `boot-${this.#lives + 2}`;
    this.#bootedAtMs = this.clock.monotonicMs() - 1_000;
    this.crash();
  }

  /** Ends the agent in order. */
  restart(): void {
    this.spool[Symbol.dispose]();
    this.spool = this.open();
  }

  [Symbol.dispose](): void {
    this.failure = undefined;
    this.spool[Symbol.dispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #failing(db: SpoolDatabase): SpoolDatabase {
    const transaction = db.transaction.bind(db);
    db.transaction = (work) => {
      transaction(() => {
        work();
        if (this.failure !== undefined) throw new TelemetryError(this.failure, 'the disk fails, as the test wants');
      });
    };
    return db;
  }
}

export function point(value: unknown, event = 'e', pointClass: PointClass = 'normal'): NewPoint {
  return { event, class: pointClass, value, time: { kind: 'known', atMs: Date.UTC(2027, 0, 1) } };
}

export function points(count: number, event = 'e', pointClass: PointClass = 'normal'): NewPoint[] {
  return Array.from({ length: count }, (_, index) => point(index, event, pointClass));
}

export function values({ points }: { readonly points: readonly Pick<SpooledPoint, 'text'>[] }): unknown[] {
  return points.map(({ text }) => JSON.parse(text) as unknown);
}

/** Everything, as a service that never fails gets it. */
export function drain(spool: DatapointQueue, limit = 500): Batch[] {
  const batches: Batch[] = [];
  for (;;) {
    const batch = spool.takeLive(limit, noEvents) ?? spool.takeBacklog(limit, noEvents);
    if (batch === undefined) return batches;
    spool.accepted(batch, batch.points.length);
    spool.release(batch);
    batches.push(batch);
  }
}

/** A spool whose disk, with the file at this path, comes later than the agent: when `arrive` was called. */
export function rigWithLateDisk(path: string): { readonly late: SpoolRig; readonly arrive: () => void } {
  let isThere = false;
  const open = (file: string): SpoolDatabase => SpoolDatabase.open(isThere ? file : '/nowhere/spool.db');
  const late = new SpoolRig({ path, open });
  return {
    late,
    arrive: () => {
      isThere = true;
      late.clock.advance(31_000);
    },
  };
}
