import type { Boots } from '../clock/boots.ts';
import { TelemetryError } from '../errors.ts';
import { pointBytes } from '../point.ts';
import type { SpooledPoint } from '../point.ts';
import type { Batch, HeldBatch } from './batch.ts';
import { PendingPoints } from './pending-points.ts';
import type { LivePoint } from './pending-points.ts';
import type { Stream } from './streams.ts';

/** The part of the spool that is in memory: what waits to be written, and what is on its way to the service meanwhile. */
export class LiveLane {
  readonly #boots: Boots;
  readonly #pending = new PendingPoints();
  readonly #held = new Set<HeldBatch>();

  constructor(boots: Boots) {
    this.#boots = boots;
  }

  /** Of streams of which a batch is on its way: its first point that is not settled. */
  get ceilings(): ReadonlyMap<Stream, number> {
    const ceilings = new Map<Stream, number>();
    for (const { stream, live } of this.#held) if (live[0] !== undefined) ceilings.set(stream, live[0].seq);
    return ceilings;
  }

  /** Points that are in memory only. */
  get unwritten(): number {
    return this.#pending.points + this.#heldUnwritten().length;
  }

  /** Something could be taken, were its time known and its event not held up. */
  get isWaiting(): boolean {
    return this.#pending.points > 0;
  }

  get bytes(): number {
    return this.#pending.bytes;
  }

  add(point: Omit<LivePoint, 'bytes' | 'stored'>): void {
    this.#pending.add({ ...point, bytes: pointBytes(point.text), stored: false });
  }

  oldestSinceBootMs(): number | undefined {
    const pending = this.#pending.oldestSinceBootMs();
    const held = this.#heldUnwritten().map(({ sinceBootMs }) => sinceBootMs);
    const all = pending === undefined ? held : [...held, pending];
    return all.length === 0 ? undefined : Math.min(...all);
  }

  take(limit: number, skip: ReadonlySet<string>): HeldBatch | undefined {
    const busy = new Set(this.#held.values().map(({ stream }) => stream));
    const stream = this.#pending.next(
      (oldest) => !skip.has(oldest.stream.event) && !busy.has(oldest.stream) && this.#timeOf(oldest) !== undefined,
    );
    if (stream === undefined) return undefined;
    const points: SpooledPoint[] = [];
    const live = this.#pending.take(stream, limit, (point) => {
      const atMs = this.#timeOf(point);
      if (atMs !== undefined) points.push({ seq: point.seq, atMs, text: point.text });
      return atMs !== undefined;
    });
    const batch: Batch = { lane: 'live', event: stream.event, class: stream.class, points };
    const held: HeldBatch = { batch, stream, live, shift: 0 };
    this.#held.add(held);
    return held;
  }

  /** They are at the service, or will never be. Returns whether they are on disk. */
  settle(held: HeldBatch, first: number, last: number): boolean {
    const isMeant = ({ seq }: LivePoint): boolean => seq >= first && seq <= last;
    const settled = held.live.filter(isMeant);
    held.live.splice(0, held.live.length, ...held.live.filter((point) => !isMeant(point)));
    for (const { stored, receipt } of settled) if (!stored) receipt?.safe('service');
    return settled.some(({ stored }) => stored);
  }

  /** Tells who waits for this one. */
  refuse(held: HeldBatch, seq: number): void {
    const refusal = new TelemetryError('point-refused', `the service refuses a point of event ${held.batch.event}`);
    for (const point of held.live) if (point.seq === seq) point.receipt?.lost(refusal);
  }

  /** What is left of it waits again, unless it is on disk. */
  release(held: HeldBatch): void {
    if (!this.#held.delete(held)) return;
    this.#pending.giveBack(
      held.stream,
      held.live.filter(({ stored }) => !stored),
    );
  }

  /** All that is in memory only, oldest first. */
  toWrite(): LivePoint[] {
    return [...this.#heldUnwritten(), ...this.#pending.all()].sort((a, b) => a.seq - b.seq);
  }

  /** What `toWrite` returned is on disk. */
  written(): void {
    this.#pending.clear();
  }

  /** The oldest of the lowest class that is not on its way. */
  dropOldest(): LivePoint | undefined {
    const dropped = this.#pending.dropOldest();
    dropped?.receipt?.lost(
      new TelemetryError('point-dropped', 'a point was dropped: neither disk nor memory has room'),
    );
    return dropped;
  }

  /** The file that was opened has gone further than we have. */
  shift(by: number): void {
    for (const held of this.#held) held.shift += by;
    for (const point of [...this.#heldUnwritten(), ...this.#pending.all()]) point.seq += by;
  }

  #heldUnwritten(): LivePoint[] {
    return [...this.#held].flatMap(({ live }) => live.filter(({ stored }) => !stored));
  }

  #timeOf({ atMs, sinceBootMs }: LivePoint): number | undefined {
    return atMs ?? this.#boots.wallMs(this.#boots.current.id, sinceBootMs);
  }
}
