import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { silentLog } from '../../../../src/system/log/log.ts';
import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import type { NewPoint, PointClass } from '../../../../src/telemetry/point.ts';
import type { Batch, TimedPoint } from '../../../../src/telemetry/queue/batch.ts';
import { QueueDatabase } from '../../../../src/telemetry/queue/database/queue-database.ts';
import { DatapointQueue } from '../../../../src/telemetry/queue/queue.ts';
import type { QueueDeps } from '../../../../src/telemetry/queue/queue.ts';
import type { Stream } from '../../../../src/telemetry/queue/streams.ts';
import { ManualClock } from '../../../fakes/clock.ts';

export const noStreams: ReadonlySet<Stream> = new Set();
const ample = { maxBytes: 2 ** 30, maxAgeMs: 2 ** 40 };
export const ampleBounds = { urgent: ample, normal: ample, bulk: ample, maxBytes: 2 ** 30 };

export interface RigOptions extends Partial<QueueDeps> {
  readonly bootName?: string;
  /** Default: true. */
  readonly isClockSet?: boolean;
}

/** A queue in a directory of its own, a clock that stands still, and a disk that can fail. */
export class QueueRig implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'queue-'));
  readonly clock = new ManualClock();
  readonly #options: Partial<QueueDeps>;
  /** The error of every transaction, while it is set. */
  failure: 'queue-full' | 'queue-unwritable' | undefined;
  bootName: string;
  /** The queue learns the clock when it opens. */
  isClockSet: boolean;
  #bootedAtMs: number;
  #lives = 0;
  path: string;
  queue: DatapointQueue;

  constructor({ bootName = 'boot-1', isClockSet = true, ...options }: RigOptions = {}) {
    this.#options = options;
    this.bootName = bootName;
    this.isClockSet = isClockSet;
    this.#bootedAtMs = this.clock.monotonicMs() - 20_000;
    this.path = join(this.directory, 'queue.db');
    this.queue = this.open();
  }

  open(): DatapointQueue {
    const queue = new DatapointQueue({
      path: this.path,
      bounds: ampleBounds,
      minFreeBytes: 0,
      maxDeadLetters: 100,
      writeIntervalMs: 10_000,
      writePoints: 500,
      memoryPoints: 10_000,
      flashBytesPerDay: Number.POSITIVE_INFINITY,
      readWritten: () => 0,
      clock: this.clock,
      boot: { name: this.bootName, sinceBootMs: () => this.clock.monotonicMs() - this.#bootedAtMs },
      log: silentLog,
      open: (path) => this.#failing(QueueDatabase.open(path)),
      ...this.#options,
    });
    if (this.isClockSet) queue.learnClock(this.clock.nowMs() - this.sinceBootMs);
    return queue;
  }

  /** The number of datapoints that the service does not have yet. */
  get waiting(): number {
    const { pointsInMemory, pointsOnDisk } = this.queue.figures();
    return pointsInMemory + pointsOnDisk;
  }

  get sinceBootMs(): number {
    return this.clock.monotonicMs() - this.#bootedAtMs;
  }

  /** Ends as with `kill -9`: data in memory is lost. `damage` is applied to the files. */
  crash(damage: (path: string) => void = () => {}): void {
    this.#lives += 1;
    const next = join(this.directory, `queue-${this.#lives}.db`);
    for (const suffix of ['', '-wal']) {
      if (existsSync(`${this.path}${suffix}`)) copyFileSync(`${this.path}${suffix}`, `${next}${suffix}`);
    }
    this.failure = 'queue-full';
    this.queue[Symbol.dispose]();
    this.failure = undefined;
    this.path = next;
    damage(next);
    this.queue = this.open();
  }

  /** A crash and another boot, whose clock is not set. */
  reboot(): void {
    this.bootName = `boot-${this.#lives + 2}`;
    this.isClockSet = false;
    this.#bootedAtMs = this.clock.monotonicMs() - 1_000;
    this.crash();
  }

  /** Ends the agent in order. */
  restart(): void {
    this.queue[Symbol.dispose]();
    this.queue = this.open();
  }

  [Symbol.dispose](): void {
    this.failure = undefined;
    this.queue[Symbol.dispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #failing(db: QueueDatabase): QueueDatabase {
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

export function values({ points }: { readonly points: readonly Pick<TimedPoint, 'text'>[] }): unknown[] {
  return points.map(({ text }) => JSON.parse(text) as unknown);
}

/** Everything, as a service that never fails gets it. */
export function drain(queue: DatapointQueue, limit = 500): Batch[] {
  const batches: Batch[] = [];
  for (;;) {
    const batch = queue.take('live', limit, noStreams) ?? queue.take('backlog', limit, noStreams);
    if (batch === undefined) return batches;
    queue.accepted(batch, batch.points.length);
    queue.release(batch);
    batches.push(batch);
  }
}

/** Delivers the next value of a property; `whileSent` happens while it is on its way. */
export function takeProperty({ queue }: QueueRig, whileSent: () => void = () => {}): [string, string] | undefined {
  const batch = queue.take('property', 1, noStreams);
  const [value] = batch?.points ?? [];
  if (batch === undefined || value === undefined) return undefined;
  whileSent();
  queue.accepted(batch, 1);
  queue.release(batch);
  return [batch.stream.name, value.text];
}

/** A queue whose disk, with the file at this path, comes later than the agent: when `arrive` was called. */
export function rigWithLateDisk(path: string): { readonly late: QueueRig; readonly arrive: () => void } {
  let isThere = false;
  const open = (file: string): QueueDatabase => QueueDatabase.open(isThere ? file : '/nowhere/queue.db');
  const late = new QueueRig({ path, open });
  return {
    late,
    arrive: () => {
      isThere = true;
      late.clock.advance(31_000);
    },
  };
}
