import type { QueueStats } from '../../control/telemetry-protocol.ts';
import type { Clock } from '../../system/time/clock.ts';
import { Boots } from '../clock/boots.ts';
import { Acknowledgement, waitForAck } from '../delivery/acknowledgement.ts';
import type { AcknowledgedBy } from '../delivery/acknowledgement.ts';
import { Wakeup } from '../delivery/wakeup.ts';
import { TelemetryError } from '../errors.ts';
import type { NewPoint, PointTime } from '../point.ts';
import type { TelemetrySettings } from '../settings.ts';
import { checkName, toText } from '../value-text.ts';
import { isCurrent } from './batch.ts';
import type { Batch, Lane, QueuedPoint } from './batch.ts';
import type { DeadLetter } from './database/records.ts';
import { noDrops } from './eviction.ts';
import { FlashWear } from './flash-wear.ts';
import type { FlashWearDeps } from './flash-wear.ts';
import { StoredPoints } from './stored-points.ts';
import type { StoredPointsDeps } from './stored-points.ts';
import { StreamRegistry } from './streams.ts';
import type { Stream } from './streams.ts';
import { UnflushedPoints } from './unflushed-points.ts';

type Timing = Pick<TelemetrySettings, 'writeIntervalMs' | 'writePoints' | 'memoryPoints'>;

type Storage = Pick<StoredPointsDeps, 'path' | 'bounds' | 'minFreeBytes' | 'maxDeadLetters' | 'log' | 'open'>;

export interface QueueDeps extends Storage, Timing, FlashWearDeps {
  readonly clock: Clock;
  readonly boot: BootTime;
  /** The events of the configuration, which are accepted however many names others make up. */
  readonly configuredEvents?: ReadonlySet<string>;
  readonly maxEvents?: number;
}

/** The kernel's monotonic clock, which continues while the agent restarts. */
export interface BootTime {
  readonly name: string;
  readonly sinceBootMs: () => number;
}

/** The pause between two attempts on a disk that failed. */
const PAUSE_MS = 1_000;
const LONGEST_SLEEP_MS = 60_000;

/**
 * Guarantee `datapoints`: the durable queue of datapoints that the service has not accepted yet. SQLite is the queue; memory holds
 * only the group that is not flushed yet, which may be delivered before. Opening never fails: a disk that cannot be used
 * is a figure, not an error.
 */
export class DatapointQueue implements Disposable {
  readonly #deps: QueueDeps;
  readonly #streams: StreamRegistry;
  readonly #boots: Boots;
  /** Datapoints that were not delivered, since the agent started. */
  readonly #dropped = noDrops();
  readonly #unflushed = new UnflushedPoints();
  readonly #stored: StoredPoints;
  readonly #flash: FlashWear;
  readonly #onTheirWay = new Map<Lane, Batch>();
  /** Notified when there may be something to write. */
  readonly #writing = new Wakeup();
  /** Notified when there may be something to deliver. */
  readonly arrival = { live: new Wakeup(), urgent: new Wakeup(), backlog: new Wakeup(), property: new Wakeup() };
  #isUrgent = false;
  /** When something was settled that is still on disk. */
  #settledAtMs = Number.POSITIVE_INFINITY;

  constructor(deps: QueueDeps) {
    const { clock, boot } = deps;
    this.#deps = deps;
    this.#streams = new StreamRegistry(deps.configuredEvents, deps.maxEvents);
    this.#flash = new FlashWear(deps);
    this.#boots = new Boots(boot.name);
    const known = { streams: this.#streams, boots: this.#boots, dropped: this.#dropped, onOpen: this.#notifyStored };
    const timing = { flash: this.#flash, monotonicMs: () => clock.monotonicMs(), sinceBootMs: boot.sinceBootMs };
    this.#stored = new StoredPoints({ ...deps, ...known, ...timing });
  }

  /** Writes what is in memory, also into the space for the agent's own state, and closes. */
  [Symbol.dispose](): void {
    this.#stored.allowLastWrite();
    const { length } = this.flush() ? [] : this.#unflushed.all;
    if (length > 0) this.#deps.log.error({ lost: length }, `values in memory are lost: ${this.#stored.trouble}`);
    this.#stored[Symbol.dispose]();
  }

  /** Accepts all datapoints or none. Throws TelemetryError if one cannot be sent, or a program sends too many. */
  push(points: readonly NewPoint[], sender: 'source' | 'program' = 'source'): Acknowledgement {
    const prepared = points.map((point) => ({ point, name: checkName(point.event), text: toText(point.value) }));
    const spent = sender === 'program' ? this.#flash.pauseText : undefined;
    if (spent !== undefined && this.#unflushed.exceed(this.#deps.memoryPoints / 2, prepared))
      throw new TelemetryError('point-dropped', `half of the memory would be full, and ${spent}`);
    const names = new Set(prepared.map(({ name }) => name));
    for (const stream of this.#streams.surplus(names, () => this.#waiting())) this.#stored.forgetEvent(stream);
    const ack = new Acknowledgement(points.length);
    const now = this.#deps.boot.sinceBootMs();
    for (const { point, name, text } of prepared) {
      const stream = this.#streams.of({ kind: 'event', name });
      const { atMs, sinceBootMs } = this.#streams.stamp(stream, this.#dated(point.time, now), now);
      const { class: pointClass } = point;
      this.#unflushed.add({ stream, class: pointClass, atMs, sinceBootMs, text, revision: 0, ack, seq: undefined });
      this.#isUrgent ||= pointClass === 'urgent';
    }
    this.#keepMemoryBounded();
    this.arrival.live.notify();
    if (this.#isUrgent || this.#unflushed.total.points >= this.#deps.writePoints / 2) this.arrival.urgent.notify();
    this.#writing.notify();
    return ack;
  }

  /** Sets a property; only its last value counts. */
  setProperty(id: string, value: unknown): Acknowledgement {
    const text = toText(value);
    const stream = this.#streams.of({ kind: 'property', name: checkName(id) });
    stream.revision += 1;
    const ack = new Acknowledgement(1);
    const came = { stream, class: 'property', revision: stream.revision, text, ack, seq: undefined } as const;
    const replaced = this.#unflushed.addOrReplace({ ...came, atMs: 0, sinceBootMs: this.#deps.boot.sinceBootMs() });
    replaced?.ack?.follow(ack);
    this.arrival.property.notify();
    this.#writing.notify();
    return ack;
  }

  /** Writes soon. Resolves when the values are durable or delivered. Throws TelemetryError if they are neither in time. */
  async acknowledged({ settled }: Acknowledgement, signal: AbortSignal): Promise<AcknowledgedBy> {
    const trouble = (): string | undefined => this.#stored.trouble ?? this.#flash.pauseText;
    this.#isUrgent = true;
    for (const wakeup of [this.arrival.urgent, this.#writing]) wakeup.notify();
    return waitForAck(settled, { clock: this.#deps.clock, trouble }, signal);
  }

  /** The clock was set, and shows when this boot began. Datapoints that waited for that can be sent. */
  learnClock(startedAtMs: number): void {
    this.#boots.learnStart(Math.round(startedAtMs));
    this.#streams.learnStart(Math.round(startedAtMs));
    for (const wakeup of [this.arrival.live, this.arrival.backlog]) wakeup.notify();
  }

  /** Writes what is due, until the signal is aborted. An empty queue has no timer. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      const isUsable = this.msUntilDue() > 0 ? this.#stored.isUsable() : this.flush();
      const dueMs = isUsable ? this.msUntilDue() : PAUSE_MS;
      // what may be written to flash in a day frees up with time
      const longestMs = this.#unflushed.all.length > 0 ? LONGEST_SLEEP_MS : Number.POSITIVE_INFINITY;
      await this.#writing.wait(Math.min(dueMs, longestMs), clock, signal);
    }
  }

  /** Returns the time until a write is due. 0 if it is due now; infinity if there is nothing to write. */
  msUntilDue(): number {
    const { clock, boot, writeIntervalMs, writePoints, memoryPoints } = this.#deps;
    const [oldest] = this.#unflushed.all;
    const { pauseMs } = this.#flash;
    if (this.#unflushed.total.points >= (pauseMs === undefined ? writePoints : memoryPoints * 0.8)) return 0;
    if (this.#isUrgent && oldest !== undefined) return pauseMs ?? 0;
    const waitedMs =
      oldest === undefined || pauseMs !== undefined
        ? Number.NEGATIVE_INFINITY
        : boot.sinceBootMs() - oldest.sinceBootMs;
    const settledMs = clock.monotonicMs() - this.#settledAtMs;
    return Math.max(pauseMs ?? 0, writeIntervalMs - Math.max(waitedMs, settledMs));
  }

  /** Writes now. Returns false if the disk cannot be used, and everything stays in memory. */
  flush(): boolean {
    const points = this.#unflushed.all;
    const isNeeded = points.length > 0 || this.#stored.isDirty;
    if (isNeeded && !this.#stored.write(points)) return false;
    this.#isUrgent = false;
    this.#settledAtMs = Number.POSITIVE_INFINITY;
    this.#unflushed.clear();
    for (const { ack } of points) ack?.safe('disk');
    if (points.length > 0) this.#notifyStored();
    return true;
  }

  /** Returns the next datapoints of one stream. Each lane has one batch at a time. `skip`: streams that have to wait. */
  take(lane: Lane, limit: number, skip: ReadonlySet<Stream>): Batch | undefined {
    if (this.#onTheirWay.has(lane)) return undefined;
    const batch = this.#next(lane, limit, skip);
    if (batch !== undefined) this.#onTheirWay.set(lane, batch);
    return batch;
  }

  /** The service has accepted the next `count` datapoints. */
  accepted(batch: Batch, count: number): void {
    const points = batch.acknowledge(count);
    for (const { seq, ack } of points) if (seq === undefined) ack?.safe('service');
    this.#settle(batch, points);
  }

  /** The service will never accept the next datapoint. */
  refused(batch: Batch, reason: string): void {
    const points = batch.acknowledge(1);
    const { name: event } = batch.stream;
    for (const { atMs, text, ack } of points) {
      ack?.lost(new TelemetryError('point-refused', `the service refuses a datapoint of event ${event}`));
      this.#stored.addDeadLetter({ event, atMs, text, reason });
      this.#dropped.refused += 1;
    }
    this.#settle(batch, points);
  }

  /** Ends the delivery of a batch. Datapoints that were neither accepted nor refused wait again. */
  release(batch: Batch): void {
    if (this.#onTheirWay.get(batch.lane) !== batch) return;
    this.#onTheirWay.delete(batch.lane);
    this.#stored.release(batch);
    this.#writing.notify();
    if (this.hasBacklog) this.arrival.backlog.notify(); // the stream of a live batch was passed over
  }

  get hasBacklog(): boolean {
    return this.#stored.total.points > 0;
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#stored.read((db) => db.deadLetters(limit), []);
  }

  figures(): QueueStats {
    const { points, bytes } = this.#stored.total;
    return {
      pointsInMemory: this.#unflushed.total.points,
      pointsOnDisk: points,
      bytesOnDisk: bytes,
      fileBytes: this.#stored.read((db) => db.fileBytes(), 0),
      oldestAgeMs: this.#stored.oldestAgeMs(),
      properties: this.#streams.properties,
      dropped: { ...this.#dropped },
      deadLetters: this.#stored.read((db) => db.countDeadLetters(), 0),
      flashBytesPerDay: this.#flash.bytesPerDay,
      bootsWithEstimatedTime: this.#boots.estimated,
      error: this.#stored.trouble,
    };
  }

  readonly #notifyStored = (): void => {
    for (const wakeup of [this.arrival.backlog, this.arrival.property]) wakeup.notify();
  };

  /** Returns the events with datapoints in memory, on disk, or on their way. */
  #waiting(): ReadonlySet<Stream> {
    const streams = [...this.#unflushed.all, ...this.#onTheirWay.values()].map(({ stream }) => stream);
    return new Set([...streams, ...this.#stored.events()]);
  }

  #next(lane: Lane, limit: number, skip: ReadonlySet<Stream>): Batch | undefined {
    if (lane === 'property') return this.#nextProperty(limit, skip);
    const { startedAtMs } = this.#boots.current;
    if (startedAtMs === undefined) return undefined; // the clock is not set
    if (lane === 'live') return this.#unflushed.next(lane, limit, startedAtMs, skip);
    const live = this.#onTheirWay.get('live');
    const isFlushed = live?.next?.seq !== undefined; // its rows must not be sent twice
    return this.#stored.next(lane, limit, isFlushed ? new Set([...skip, live.stream]) : skip);
  }

  #nextProperty(limit: number, skip: ReadonlySet<Stream>): Batch | undefined {
    const batch = this.#unflushed.next('property', limit, 0, skip);
    // an older value on disk must not be sent after a newer one, not even after a crash
    const mustWrite = batch !== undefined && this.#stored.hasProperties;
    if (mustWrite && this.#flash.pauseText !== undefined) {
      this.#isUrgent = true;
      this.#writing.notify();
      return this.#stored.next(
        'property',
        limit,
        new Set([...skip, ...this.#unflushed.all.map(({ stream }) => stream)]),
      );
    }
    if (batch !== undefined && !(mustWrite && this.flush())) return batch;
    return this.#stored.next('property', limit, skip);
  }

  /** Dates a datapoint that comes when the clock is already set, so that it needs no dating later. */
  #dated(time: PointTime, sinceBootMs: number): PointTime {
    const { startedAtMs } = this.#boots.current;
    if (time.kind !== 'since-boot' || startedAtMs === undefined) return time;
    return { kind: 'known', atMs: startedAtMs + sinceBootMs };
  }

  #settle({ stream }: Batch, points: readonly QueuedPoint[]): void {
    this.#unflushed.remove(points);
    if (stream.kind === 'event') this.#stored.settle(stream, points);
    else if (points.every(isCurrent)) this.#stored.settleProperty(stream);
    if (this.#stored.isDirty) this.#settledAtMs = Math.min(this.#settledAtMs, this.#deps.clock.monotonicMs());
  }

  #keepMemoryBounded(): void {
    const { memoryPoints } = this.#deps;
    if (!this.#unflushed.exceed(memoryPoints) || this.flush()) return;
    const dropped = this.#unflushed.dropBeyond(memoryPoints, this.#onTheirWay.get('live')?.left ?? []);
    const why = 'a datapoint was dropped: neither disk nor memory has room';
    for (const { ack } of dropped) ack?.lost(new TelemetryError('point-dropped', why));
    this.#dropped['memory-full'] += dropped.length;
  }
}
