import type { Boots } from '../clock/boots.ts';
import { TelemetryError } from '../errors.ts';
import { pointClasses } from '../point.ts';
import { Batch } from './batch.ts';
import type { Lane, QueuedPoint, TimedPoint } from './batch.ts';
import type { QueueDatabase } from './database/queue-database.ts';
import { QueueFile } from './database/queue-file.ts';
import type { QueueFileDeps } from './database/queue-file.ts';
import { classOf, emptyTotals, pointRange, rangeOf, seqOf, totalOf } from './database/records.ts';
import type { Amount, DeadLetter, StoredPoint } from './database/records.ts';
import { evict } from './eviction.ts';
import type { DropReason, Evicted, QueueBounds } from './eviction.ts';
import type { Stream, StreamRegistry } from './streams.ts';

/** The rows that are read together, from which batches are made. */
const WINDOW = 1_000;
/** A larger file returns its space when it becomes empty. */
const SHRINK_ABOVE_BYTES = 1024 * 1024;

export interface StoredPointsDeps extends Omit<QueueFileDeps, 'remembered' | 'onOpen'> {
  readonly bounds: QueueBounds;
  readonly maxDeadLetters: number;
  readonly sinceBootMs: () => number;
  readonly streams: StreamRegistry;
  readonly boots: Boots;
  readonly dropped: Record<DropReason, number>;
  /** Called when a file was opened, perhaps later than the agent started, with rows to deliver. */
  readonly onOpen: () => void;
}

/** The datapoints on disk. They are written, read back in batches, removed when settled, and evicted. */
export class StoredPoints implements Disposable {
  readonly #deps: StoredPointsDeps;
  readonly #file: QueueFile;
  /** The totals in the open database, or in the last one. */
  #totals = emptyTotals();
  /** The highest number of a datapoint. A row gets its seq when it is written. */
  #lastNumber = 0;
  /** Removals of settled rows, and dead letters, for the next write. */
  #changes: ((db: QueueDatabase) => void)[] = [];
  /** The ids of the properties among the removals. */
  #settledProperties = new Set<number>();
  /** Batches that were read ahead. */
  #windows: Record<Exclude<Lane, 'live'>, Batch[]> = { backlog: [], property: [] };

  constructor(deps: StoredPointsDeps) {
    this.#deps = deps;
    this.#file = new QueueFile({
      ...deps,
      remembered: () => ({ streams: deps.streams.records(), points: this.total.points }),
      onOpen: (db, lost) => this.#adopt(db, lost),
    });
    this.#file.read(() => undefined, undefined); // opens it
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }

  get trouble(): string | undefined {
    return this.#file.trouble;
  }

  /** Returns true if the disk can be used. After a failure it is tried, although there is nothing to write. */
  isUsable(): boolean {
    return this.trouble === undefined || this.#file.write(true, () => {});
  }

  allowLastWrite(): void {
    this.#file.allowLastWrite();
  }

  /** The total without properties. */
  get total(): Amount {
    return totalOf(this.#totals);
  }

  get hasProperties(): boolean {
    return this.#totals.property.points > 0;
  }

  /** True if something settled is still on disk. */
  get isDirty(): boolean {
    return this.#changes.length > 0;
  }

  /** Reads from the database, if that is possible. */
  read<T>(work: (db: QueueDatabase) => T, otherwise: T): T {
    return this.#file.read(work, otherwise);
  }

  /** The age of the oldest datapoint by this boot's clock. Undefined if none waits, or the age is unknown. */
  oldestAgeMs(): number | undefined {
    const oldest = this.#file.read(
      (db) => pointClasses.flatMap((pointClass) => db.rows(rangeOf(pointClass)).take(1).toArray()),
      [],
    );
    const ages = oldest.map((point) => this.#ageMs(point)).filter((age) => age !== undefined);
    return ages.length === 0 ? undefined : Math.max(...ages);
  }

  /** Writes datapoints, and removes settled ones and those beyond the bounds, in one durable transaction. */
  write(points: readonly QueuedPoint[]): boolean {
    const { dropped } = this.#deps;
    const changes = this.#changes;
    let evicted: readonly Evicted[] = [];
    const done = this.#file.write(points.length > 0, (db) => {
      for (const change of changes) change(db);
      this.#add(db, points);
      evicted = evict(db, this.#deps.bounds, (point) => this.#ageMs(point));
    });
    if (!done) {
      for (const point of points) point.seq = undefined;
      return false;
    }
    for (const { reason, points: lost } of evicted) dropped[reason] += lost;
    this.#changes = [];
    this.#settledProperties.clear();
    this.#tidy();
    return true;
  }

  /** Returns the next batch, most urgent and oldest first. `skip`: streams that have to wait. */
  next(lane: Exclude<Lane, 'live'>, limit: number, skip: ReadonlySet<Stream>): Batch | undefined {
    const isFree = (batch: Batch): boolean => !skip.has(batch.stream) && batch.isCurrent;
    if (!this.#windows[lane].some(isFree)) {
      const waiting = lane === 'property' ? this.#totals.property : this.total;
      if (waiting.points === 0 || (this.isDirty && !this.write([]))) return undefined;
      const read = this.#read(lane, limit, skip); // may replace the windows, where the file is damaged
      this.#windows[lane] = read;
    }
    const window = this.#windows[lane];
    const index = window.findIndex(isFree);
    return index === -1 ? undefined : window.splice(index, 1)[0];
  }

  /** Removes settled datapoints that have rows, which are neighbors in their stream, with the next write. */
  settle(stream: Stream, points: readonly QueuedPoint[]): void {
    const seqs = points.flatMap(({ seq }) => seq ?? []);
    const [first, last] = [seqs[0], seqs.at(-1)];
    if (first === undefined || last === undefined) return;
    const id = this.#deps.streams.idOf(stream);
    this.#changes.push((db) => db.remove({ first, last }, id));
  }

  /** Removes the last value of a property with the next write, and forgets the property. */
  settleProperty(stream: Stream): void {
    this.#deps.streams.forget(stream);
    const { id } = stream;
    if (id === undefined) return;
    const seq = seqOf('property', id);
    this.#settledProperties.add(id);
    this.#changes.push((db) => {
      db.remove({ first: seq, last: seq }, id);
      db.deleteStream(id);
    });
  }

  /** Returns the events with datapoints on disk, or all that may have some if it cannot be read. */
  events(): IteratorObject<Stream> {
    const ids = this.#file.read((db) => db.eventsWithPoints(), undefined);
    const events = this.#deps.streams.all('event');
    return events.filter(({ id, mayBeOnDisk }) => (ids === undefined ? mayBeOnDisk : id !== undefined && ids.has(id)));
  }

  /** Forgets an event without datapoints; its row is removed with the next write. */
  forgetEvent(stream: Stream): void {
    this.#deps.streams.forget(stream);
    if (stream.id !== undefined) this.#changes.push((db) => db.deleteIdleEvent(stream.name));
  }

  addDeadLetter(letter: DeadLetter): void {
    this.#changes.push((db) => db.addDeadLetter(letter, this.#deps.maxDeadLetters));
  }

  /** Lets the unsettled datapoints of a batch be read again. */
  release({ lane, next }: Batch): void {
    if (next !== undefined && lane !== 'live') this.#windows[lane] = [];
  }

  /** Reads batches. */
  #read(lane: Lane, limit: number, skip: ReadonlySet<Stream>): Batch[] {
    const [kind, range] =
      lane === 'property' ? (['property', rangeOf('property')] as const) : (['event', pointRange] as const);
    const streams = this.#deps.streams.all(kind);
    const open = streams.filter((stream) => stream.mayBeOnDisk && !skip.has(stream)).toArray();
    if (open.length === 0) return [];
    const without = [...skip].flatMap(({ id }) => id ?? []);
    const points = this.#file.read((db) => {
      const rows = db.rows(range, without).take(WINDOW);
      return rows.map((row) => this.#pointOf(row)).toArray();
    }, undefined);
    if (points === undefined) return [];
    const found = new Set(points.map(({ stream }) => stream));
    if (points.length < WINDOW) for (const stream of open) stream.mayBeOnDisk = found.has(stream);
    return [...Map.groupBy(points, ({ class: rowClass, stream }) => `${rowClass} ${stream.id}`).values()].flatMap(
      (ofStream) => batchesOf(lane, ofStream, limit),
    );
  }

  /** Throws `queue-damaged` for a row that belongs to no stream. */
  #pointOf({ seq, stream: id, atMs, boot, sinceBootMs, text }: StoredPoint): TimedPoint {
    const { streams, boots } = this.#deps;
    const stream = streams.byId(id);
    if (stream === undefined) {
      throw new TelemetryError('queue-damaged', 'the queue is damaged: a datapoint belongs to no event');
    }
    const point = { stream, class: classOf(seq), sinceBootMs, text, revision: stream.revision, seq };
    return { ...point, atMs: atMs ?? boots.wallMs(boot, sinceBootMs) };
  }

  #add(db: QueueDatabase, points: readonly QueuedPoint[]): void {
    const { streams, boots } = this.#deps;
    for (const stream of new Set(points.map((point) => point.stream))) {
      db.saveStream(streams.recordOf(stream));
      stream.mayBeOnDisk = true;
    }
    const rows = points.map((point) => this.#row(point));
    for (const { seq, stream } of rows) if (classOf(seq) === 'property') db.remove({ first: seq, last: seq }, stream);
    db.add(rows);
    for (const boot of boots.all) db.saveBoot(boot);
  }

  /**
   * Returns the row of a datapoint. Its number is used up even if the transaction fails, since a disk that fails may have
   * kept it.
   */
  #row(point: QueuedPoint): StoredPoint {
    const { streams, boots } = this.#deps;
    const { stream, atMs, sinceBootMs, text } = point;
    if (atMs === undefined) boots.note(sinceBootMs);
    const id = streams.idOf(stream);
    if (stream.kind === 'event') this.#lastNumber += 1;
    point.seq = seqOf(point.class, stream.kind === 'event' ? this.#lastNumber : id);
    return { seq: point.seq, stream: id, atMs, boot: boots.current.id, sinceBootMs, text };
  }

  #ageMs({ boot, sinceBootMs }: StoredPoint): number | undefined {
    return this.#deps.boots.ageMs(boot, sinceBootMs, this.#deps.sinceBootMs());
  }

  #adopt(db: QueueDatabase, lost: number): void {
    const { streams, boots, dropped } = this.#deps;
    this.#lastNumber = Math.max(this.#lastNumber, db.lastNumber());
    const isThisBoot = boots.adopt(db.boots());
    streams.adopt(
      db.streams().filter(({ id }) => !this.#settledProperties.has(id)),
      isThisBoot,
    );
    this.#totals = db.totals;
    this.#windows = { backlog: [], property: [] };
    dropped.damaged += lost;
    this.#deps.onOpen();
  }

  /** Forgets past boots when nothing waits, since nothing has to be dated any longer. */
  #tidy(): void {
    if (this.total.points > 0) return;
    const past = this.#deps.boots.forgetPast();
    this.#file.read((db) => {
      for (const { id } of past) db.deleteBoot(id);
      if (db.fileBytes() > SHRINK_ABOVE_BYTES) db.shrink();
    }, undefined);
  }
}

function batchesOf(lane: Lane, points: readonly TimedPoint[], limit: number): Batch[] {
  const batches: Batch[] = [];
  for (let start = 0; start < points.length; start += limit) {
    const some = points.slice(start, start + limit);
    if (some[0] !== undefined) batches.push(new Batch(lane, some[0].stream, some));
  }
  return batches;
}
