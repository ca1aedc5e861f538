import type { QueueStats } from '../../control/telemetry-protocol.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { Boots } from '../clock/boots.ts';
import { Acknowledgement } from '../delivery/acknowledgement.ts';
import type { AcknowledgedBy } from '../delivery/acknowledgement.ts';
import { PropertyQueue } from '../delivery/property-queue.ts';
import type { QueuedProperty } from '../delivery/property-queue.ts';
import { waitForAck } from '../delivery/wait-for-ack.ts';
import { Wakeup } from '../delivery/wakeup.ts';
import { TelemetryError } from '../errors.ts';
import type { NewPoint, PointTime } from '../point.ts';
import { checkName, toText } from '../value-text.ts';
import type { Batch, SpooledPoint } from './batch.ts';
import type { DeadLetter } from './database/records.ts';
import { Drops } from './drops.ts';
import { FlashWear } from './flash-wear.ts';
import { MemoryQueue } from './live-lane.ts';
import { DiskQueue } from './spool-archive.ts';
import type { ArchiveDeps } from './spool-archive.ts';
import { StreamRegistry } from './streams.ts';
import type { Stream } from './streams.ts';

export interface SpoolDeps extends Omit<ArchiveDeps, 'flash' | 'monotonicMs' | 'sinceBootMs'> {
  readonly clock: Clock;
  readonly boot: BootTime;
  /** Points wait in memory for so long, or until so many wait. */
  readonly writeIntervalMs: number;
  readonly writePoints: number;
  readonly maxMemoryPoints: number;
  readonly maxMemoryBytes: number;
  /** Beyond this, groups become as large as the memory allows. */
  readonly maxFlashBytesPerDay: number;
  readonly flash?: FlashWear;
  /** The events of the configuration, which find a place however many names others use. */
  readonly configuredEvents?: ReadonlySet<string>;
  readonly log: Log;
}

/** The kernel's monotonic clock, which runs on while the agent restarts. */
export interface BootTime {
  readonly name: string;
  readonly sinceBootMs: () => number;
}

/** The time after which a disk that failed is tried again. */
const PAUSE_MS = 1_000;
const LONGEST_SLEEP_MS = 60_000;

/**
 * Guarantee `datapoints`: the durable queue of what the service has not accepted yet. Points wait in memory, where
 * delivery may fetch them (`live`); after a while they are written together, and wait on disk (`backlog`). Opening
 * never fails: a disk that cannot be used is a figure and not an error.
 */
export class DatapointQueue implements Disposable {
  readonly #deps: SpoolDeps;
  readonly #book: StreamRegistry;
  readonly #boots: Boots;
  readonly #drops = new Drops();
  readonly #properties = new PropertyQueue();
  readonly #live: MemoryQueue;
  readonly #archive: DiskQueue;
  readonly #flash: FlashWear;
  /** Rung when there may be something to write. */
  readonly #writing = new Wakeup();
  /** Rung when there may be something to deliver. */
  readonly arrival = { live: new Wakeup(), urgent: new Wakeup(), backlog: new Wakeup(), property: new Wakeup() };
  #isUrgent = false;
  #propertyWaitsSinceMs: number | undefined;

  constructor(deps: SpoolDeps) {
    const { clock, boot, flash = new FlashWear() } = deps;
    this.#deps = deps;
    this.#book = new StreamRegistry(deps.configuredEvents);
    this.#flash = flash;
    this.#boots = new Boots(boot.name);
    this.#live = new MemoryQueue(this.#boots);
    const books = {
      book: this.#book,
      boots: this.#boots,
      drops: this.#drops,
      properties: this.#properties,
      ceilingOf: (stream: Stream) => this.#live.ceilingOf(stream),
    };
    const timing = { flash, monotonicMs: () => clock.monotonicMs(), sinceBootMs: boot.sinceBootMs };
    this.#archive = new DiskQueue({ ...deps, ...timing }, books);
    this.#archive.open();
  }

  /** Writes what is in memory, and closes. */
  [Symbol.dispose](): void {
    this.flush();
    this.#archive[Symbol.dispose]();
  }

  /** Takes all points or none. Throws TelemetryError for a value or a name that cannot be sent. */
  push(points: readonly NewPoint[]): Acknowledgement {
    const prepared = points.map((point) => ({ point, text: toText(point.value), event: checkName(point.event) }));
    const streams = prepared.map(({ point }) => this.#book.of(point));
    const receipt = new Acknowledgement(points.length);
    const now = this.#deps.boot.sinceBootMs();
    for (const [index, { point, text }] of prepared.entries()) {
      const stream = streams[index];
      if (stream === undefined) continue;
      const { atMs, sinceBootMs } = this.#book.stamp(stream, this.#dated(point.time, now), now);
      this.#live.add({ stream, atMs, sinceBootMs, text, receipt });
      this.#isUrgent ||= point.class === 'urgent';
    }
    this.#keepMemoryBounded();
    this.arrival.live.notify();
    if (this.#isUrgent || this.#live.unwritten >= this.#deps.writePoints / 2) this.arrival.urgent.notify();
    this.#writing.notify();
    return receipt;
  }

  /** Resolves when the points are durable or delivered. Throws TelemetryError if they are neither in time. */
  async pushDurably(points: readonly NewPoint[], signal: AbortSignal): Promise<AcknowledgedBy> {
    this.#isUrgent = true;
    const receipt = this.push(points);
    return waitForAck(receipt.settled, this.#acknowledging, signal);
  }

  /** Sets a property; only its last value counts. */
  setProperty(id: string, value: unknown): QueuedProperty {
    const queued = this.#properties.set(checkName(id), toText(value));
    this.#propertyWaitsSinceMs ??= this.#deps.clock.monotonicMs();
    this.arrival.property.notify();
    this.#writing.notify();
    return queued;
  }

  async setPropertyDurably(id: string, value: unknown, signal: AbortSignal): Promise<AcknowledgedBy> {
    const queued = this.setProperty(id, value);
    if (this.flush()) return 'disk';
    return waitForAck(this.#properties.safe(queued), this.#acknowledging, signal);
  }

  /** The clock was set, and shows when this boot began. Points that waited for that can be sent. */
  learnClock(startedAtMs: number): void {
    this.#boots.learnStart(Math.round(startedAtMs));
    this.#book.learnStart(Math.round(startedAtMs));
    this.arrival.live.notify();
    this.arrival.backlog.notify();
  }

  /** Writes what is due, until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      const isWell = this.msUntilDue() > 0 ? this.#archive.isUsable() : this.flush();
      await this.#writing.wait(isWell ? Math.min(this.msUntilDue(), LONGEST_SLEEP_MS) : PAUSE_MS, clock, signal);
    }
  }

  /** The time until a write is due; 0: now; infinity: there is nothing to write. */
  msUntilDue(): number {
    const { clock, boot, writeIntervalMs, writePoints, maxMemoryPoints, maxFlashBytesPerDay } = this.#deps;
    if (this.#isUrgent && this.#live.unwritten > 0) return 0;
    const spent = this.#flash.bytesOfLastDay(clock.monotonicMs()) >= maxFlashBytesPerDay;
    if (this.#live.unwritten >= (spent ? maxMemoryPoints * 0.8 : writePoints)) return 0;
    const oldest = this.#live.oldestSinceBootMs();
    const waits = [
      oldest === undefined || spent ? Number.POSITIVE_INFINITY : oldest + writeIntervalMs - boot.sinceBootMs(),
      this.#archive.isDirty ? writeIntervalMs : Number.POSITIVE_INFINITY,
      this.#propertyWaitsSinceMs === undefined || !this.#properties.isDirty
        ? Number.POSITIVE_INFINITY
        : this.#propertyWaitsSinceMs + writeIntervalMs - clock.monotonicMs(),
    ];
    return Math.max(0, Math.min(...waits));
  }

  /** Writes now. False: the disk cannot be used, and everything stays in memory. */
  flush(): boolean {
    const points = this.#live.toWrite();
    if (points.length === 0 && !this.#archive.isDirty && !this.#properties.isDirty) return true;
    if (!this.#archive.write(points)) return false;
    this.#isUrgent = false;
    this.#propertyWaitsSinceMs = undefined;
    this.#live.written();
    for (const { receipt } of points) receipt?.safe('disk');
    if (points.length > 0) this.arrival.backlog.notify();
    return true;
  }

  /** Takes the next points of one event from memory. `skip`: events that have to wait. */
  takeLive(limit: number, skip: ReadonlySet<string>): Batch | undefined {
    return this.#live.take(limit, skip);
  }

  /** Takes the next points of one event from the disk, one batch at a time. */
  takeBacklog(limit: number, skip: ReadonlySet<string>): Batch | undefined {
    return this.#archive.nextBatch(limit, skip);
  }

  /** The service has accepted the next `count` points. */
  accepted(batch: Batch, count: number): void {
    const points = batch.acknowledge(count);
    for (const { seq, receipt } of points) if (seq === undefined) receipt?.safe('service');
    this.#forget(batch, points);
  }

  /** The service will never accept the next point. */
  refused(batch: Batch, reason: string): void {
    const points = batch.acknowledge(1);
    const { event } = batch;
    for (const { atMs, text, receipt } of points) {
      receipt?.lost(new TelemetryError('point-refused', `the service refuses a point of event ${event}`));
      this.#archive.bury({ event, atMs, text, reason });
      this.#drops.note('refused', 1);
    }
    this.#forget(batch, points);
  }

  /** Ends the delivery of a batch. Points that were neither accepted nor refused wait again. */
  release(batch: Batch): void {
    this.#live.release(batch);
    this.#archive.release(batch);
    this.#writing.notify();
  }

  takeProperty(skip: ReadonlySet<string>): QueuedProperty | undefined {
    return this.#properties.next(skip);
  }

  /** The service has the value, or will never accept it. */
  settleProperty(property: QueuedProperty): void {
    this.#properties.settle(property);
    this.#propertyWaitsSinceMs ??= this.#deps.clock.monotonicMs();
  }

  /** The number of points that are not at the service yet. */
  get waiting(): number {
    return this.#live.unwritten + this.#archive.points;
  }

  get hasLive(): boolean {
    return this.#live.isWaiting;
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#archive.deadLetters(limit);
  }

  figures(): QueueStats {
    const nowMs = this.#deps.clock.monotonicMs();
    return {
      pointsInMemory: this.#live.unwritten,
      pointsOnDisk: this.#archive.points,
      bytesOnDisk: this.#archive.bytes,
      fileBytes: this.#archive.fileBytes(),
      oldestAgeMs: this.#archive.oldestAgeMs(),
      properties: this.#properties.size,
      dropped: this.#drops.counts,
      deadLetters: this.#archive.countDeadLetters(),
      flashBytesPerDay: this.#flash.bytesPerDay(nowMs),
      bootsWithEstimatedTime: this.#boots.estimated,
      error: this.#archive.trouble,
    };
  }

  /** Dates a point that comes when the clock is already set, so that it needs no dating later. */
  #dated(time: PointTime, sinceBootMs: number): PointTime {
    const { startedAtMs } = this.#boots.current;
    if (time.kind !== 'since-boot' || startedAtMs === undefined) return time;
    return { kind: 'known', atMs: startedAtMs + sinceBootMs };
  }

  get #acknowledging(): Parameters<typeof waitForAck>[1] {
    return { clock: this.#deps.clock, trouble: () => this.#archive.trouble };
  }

  #forget(batch: Batch, points: readonly SpooledPoint[]): void {
    this.#live.settle(points);
    this.#archive.settle(batch, points);
  }

  #keepMemoryBounded(): void {
    const { maxMemoryPoints, maxMemoryBytes } = this.#deps;
    const isBeyond = (): boolean => this.#live.unwritten > maxMemoryPoints || this.#live.bytes > maxMemoryBytes;
    if (!isBeyond() || this.flush()) return;
    while (isBeyond()) {
      const dropped = this.#live.dropOldest();
      if (dropped === undefined) return;
      this.#drops.note('memory-full', 1);
    }
  }
}
