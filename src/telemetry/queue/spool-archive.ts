import type { Log } from '../../system/log/log.ts';
import type { Boots } from '../clock/boots.ts';
import type { PropertyQueue } from '../delivery/property-queue.ts';
import { TelemetryError } from '../errors.ts';
import { pointClasses } from '../point.ts';
import type { PointClass } from '../point.ts';
import { Batch } from './batch.ts';
import type { SpooledPoint } from './batch.ts';
import { emptyTotals, totalOf } from './database/records.ts';
import type { DeadLetter, QueueTotals, PointRange, StoredPoint } from './database/records.ts';
import type { SpoolDatabase } from './database/spool-database.ts';
import { QueueFile } from './database/spool-disk.ts';
import type { Drops } from './drops.ts';
import { evict, isBeyond } from './eviction.ts';
import type { Evicted, SpoolBounds } from './eviction.ts';
import type { FlashWear } from './flash-wear.ts';
import type { LivePoint } from './live-lane.ts';
import type { Stream, StreamRegistry } from './streams.ts';

/** The rows that are read at once, from which a batch is made. */
const WINDOW = 1_000;
/** A larger file gives its room back when it becomes empty. */
const SHRINK_ABOVE_BYTES = 1024 * 1024;

export interface ArchiveDeps {
  readonly path: string;
  readonly bounds: SpoolBounds;
  readonly minFreeBytes: number;
  readonly maxDeadLetters: number;
  readonly flash: FlashWear;
  readonly monotonicMs: () => number;
  readonly sinceBootMs: () => number;
  readonly log: Log;
  readonly open?: ((path: string) => SpoolDatabase) | undefined;
}

/** What the spool counts and names in memory, for the rows on disk. */
export interface ArchiveBooks {
  readonly book: StreamRegistry;
  readonly boots: Boots;
  readonly drops: Drops;
  readonly properties: PropertyQueue;
  /** The first point on disk that is also on its way out of memory, for streams whose newest points are. */
  readonly ceilingOf: (stream: Stream) => number;
}

/** The part of the spool on disk. It is written, read back in batches, removed when settled, and evicted. */
export class DiskQueue implements Disposable {
  readonly #deps: ArchiveDeps;
  readonly #books: ArchiveBooks;
  readonly #disk: QueueFile;
  /** The last counts of the database. */
  #holdings = emptyTotals;
  /** The highest seq so far. A row gets its seq when it is written. */
  #lastSeq = 0;
  /** Whether the points were counted anew before the first one went for want of room: the counts may be damaged. */
  #isCounted = false;
  #removals: PointRange[] = [];
  #dead: DeadLetter[] = [];
  #window: Batch[] = [];
  #inFlight: Batch | undefined;

  constructor(deps: ArchiveDeps, books: ArchiveBooks) {
    this.#deps = deps;
    this.#books = books;
    this.#disk = new QueueFile({
      ...deps,
      remembered: () => ({
        streams: [...books.book.all()].map((stream) => books.book.recordOf(stream)),
        points: this.points,
        lastSeq: this.#lastSeq,
      }),
      onOpen: (db, lost) => this.#adopt(db, lost),
    });
  }

  [Symbol.dispose](): void {
    this.#disk[Symbol.dispose]();
  }

  get trouble(): string | undefined {
    return this.#disk.trouble;
  }

  /** Whether the disk can be used. After a trouble it is tried, although there is nothing to write. */
  isUsable(): boolean {
    return this.trouble === undefined || this.#disk.write(true, () => {});
  }

  get points(): number {
    return totalOf(this.#holdings).points;
  }

  get bytes(): number {
    return totalOf(this.#holdings).bytes;
  }

  /** Whether something settled is still on disk. */
  get isDirty(): boolean {
    return this.#removals.length > 0 || this.#dead.length > 0;
  }

  /** Opens the file. Reads only counts, so that it takes no time however much waits. */
  open(): void {
    this.#disk.read(() => undefined, undefined);
  }

  fileBytes(): number {
    return this.#disk.read((db) => db.fileBytes(), 0);
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#disk.read((db) => db.deadLetters(limit), []);
  }

  countDeadLetters(): number {
    return this.#disk.read((db) => db.countDeadLetters(), 0);
  }

  /** The age of the oldest point by this boot's clock; undefined: nothing waits, or the age is not known. */
  oldestAgeMs(): number | undefined {
    const oldest = this.#disk.read((db) => pointClasses.flatMap((table) => db.oldest(table, 1)), []);
    const ages = oldest.map((point) => this.#ageMs(point)).filter((age) => age !== undefined);
    return ages.length === 0 ? undefined : Math.max(...ages);
  }

  /** Writes points and properties, and removes what was settled or exceeds the bounds: all at once, durably. */
  write(points: readonly LivePoint[]): boolean {
    const { drops, properties } = this.#books;
    const removals = this.#removals;
    const dead = this.#dead;
    const grows = points.length > 0 || properties.unwritten().length > 0;
    const { bounds } = this.#deps;
    let isCounted = this.#isCounted;
    let evicted: readonly Evicted[] = [];
    const done = this.#disk.write(grows, (db) => {
      for (const range of removals) db.remove(range);
      for (const letter of dead) db.addDeadLetter(letter, this.#deps.maxDeadLetters);
      this.#add(db, points);
      for (const { id, text } of properties.unwritten()) db.saveProperty(id, text);
      for (const id of properties.settled()) db.deleteProperty(id);
      if (!isCounted && isBeyond(db.holdings(), bounds)) {
        db.recount();
        isCounted = true;
      }
      evicted = evict(db, bounds, (point) => this.#ageMs(point));
    });
    if (!done) {
      for (const point of points) point.seq = undefined;
      return false;
    }
    this.#isCounted = isCounted;
    for (const one of evicted) drops.note(one.reason, one.points);
    properties.written();
    this.#removals = this.#removals.slice(removals.length);
    this.#dead = this.#dead.slice(dead.length);
    this.#holdings = this.#disk.read(holdingsOf, this.#holdings);
    this.#tidy();
    return true;
  }

  /** The next batch from the disk, most urgent and oldest first. Only one is out at a time. */
  nextBatch(limit: number, skip: ReadonlySet<string>): Batch | undefined {
    if (this.#inFlight !== undefined) return undefined;
    const isFree = ({ event }: Batch): boolean => !skip.has(event);
    if (!this.#window.some(isFree)) {
      if (this.isDirty && !this.write([])) return undefined;
      this.#window = this.points === 0 ? [] : this.#readWindow(limit, skip);
    }
    const index = this.#window.findIndex(isFree);
    if (index === -1) return undefined;
    [this.#inFlight] = this.#window.splice(index, 1);
    return this.#inFlight;
  }

  /** Removes settled points that have rows, which are neighbours in their stream, with the next write. */
  settle({ stream, class: table }: Batch, points: readonly SpooledPoint[]): void {
    const seqs = points.flatMap(({ seq }) => seq ?? []);
    const [first, last] = [seqs[0], seqs.at(-1)];
    if (first === undefined || last === undefined) return;
    this.#removals.push({ class: table, first, last, stream: this.#books.book.idOf(stream) });
  }

  bury(letter: DeadLetter): void {
    this.#dead.push(letter);
  }

  /** Lets the unsettled points of a batch be read again. */
  release(batch: Batch): void {
    if (this.#inFlight !== batch) return;
    this.#inFlight = undefined;
    if (batch.next !== undefined) this.#window = [];
  }

  #readWindow(limit: number, skip: ReadonlySet<string>): Batch[] {
    const excluded = this.#books.book.all().filter(({ event }) => skip.has(event));
    const without = [...excluded].flatMap(({ id }) => id ?? []);
    for (const table of pointClasses) {
      const batches = this.#readClass(table, limit, without);
      if (batches.length > 0) return batches;
    }
    return [];
  }

  /** Reads a class. Streams whose oldest point has no time yet are skipped. */
  #readClass(table: PointClass, limit: number, without: readonly number[]): Batch[] {
    const passedOver = new Set(without);
    for (;;) {
      const rows = this.#disk.read((db) => this.#known(db.oldest(table, WINDOW, [...passedOver])), []);
      const byStream = Map.groupBy(rows, ({ stream }) => stream);
      const batches = [...byStream].flatMap(([id, points]) => this.#batches(table, id, points, limit));
      if (rows.length === 0 || batches.length > 0) return batches;
      for (const id of byStream.keys()) passedOver.add(id);
    }
  }

  /** Points whose event nobody knows are damage. */
  #known(rows: readonly StoredPoint[]): readonly StoredPoint[] {
    if (rows.every(({ stream }) => this.#books.book.byId(stream) !== undefined)) return rows;
    throw new TelemetryError('queue-damaged', 'the spool is damaged: a point belongs to no event');
  }

  #batches(table: PointClass, id: number, rows: readonly StoredPoint[], limit: number): Batch[] {
    const { book, boots, ceilingOf } = this.#books;
    const stream = book.byId(id);
    if (stream === undefined) return [];
    const ceiling = ceilingOf(stream);
    const points: SpooledPoint[] = [];
    for (const { seq, atMs, boot, sinceBootMs, text } of rows) {
      const time = atMs ?? boots.wallMs(boot, sinceBootMs);
      if (time === undefined || seq >= ceiling) break;
      points.push({ seq, atMs: time, text });
    }
    const batches: Batch[] = [];
    for (let start = 0; start < points.length; start += limit) {
      batches.push(new Batch('backlog', stream, points.slice(start, start + limit), table));
    }
    return batches;
  }

  #add(db: SpoolDatabase, points: readonly LivePoint[]): void {
    const { book, boots } = this.#books;
    for (const stream of new Set(points.map((point) => point.stream))) db.saveStream(book.recordOf(stream));
    for (const table of pointClasses) {
      const ofClass = points.filter(({ stream }) => stream.class === table);
      db.addPoints(
        table,
        ofClass.map((point) => this.#row(point)),
      );
    }
    for (const boot of boots.all) db.saveBoot(boot);
  }

  /**
   * The row of a point. Its seq is used up whatever becomes of the transaction, since a disk that fails may have kept
   * it.
   */
  #row(point: LivePoint): StoredPoint {
    const { book, boots } = this.#books;
    const { stream, atMs, sinceBootMs, text } = point;
    if (atMs === undefined) boots.note(sinceBootMs);
    this.#lastSeq += 1;
    point.seq = this.#lastSeq;
    return { seq: point.seq, stream: book.idOf(stream), atMs, boot: boots.current.id, sinceBootMs, text };
  }

  #ageMs({ boot, sinceBootMs }: StoredPoint): number | undefined {
    return this.#books.boots.ageMs(boot, sinceBootMs, this.#deps.sinceBootMs());
  }

  #adopt(db: SpoolDatabase, lost: number): void {
    const { book, boots, drops, properties } = this.#books;
    const isThisBoot = boots.adopt(db.boots());
    book.adopt(db.streams(), isThisBoot);
    properties.adopt(db.properties());
    this.#holdings = holdingsOf(db);
    this.#isCounted = false;
    this.#lastSeq = Math.max(this.#lastSeq, db.lastSeq());
    this.#window = [];
    if (lost > 0) drops.note('damaged', lost);
  }

  /** Forgets past boots when nothing waits, since nothing has to be dated any more. */
  #tidy(): void {
    if (this.points > 0) return;
    const past = this.#books.boots.forgetPast();
    this.#disk.read((db) => {
      for (const { id } of past) db.deleteBoot(id);
      if (db.fileBytes() > SHRINK_ABOVE_BYTES) db.shrink();
    }, undefined);
  }
}

function holdingsOf(db: SpoolDatabase): QueueTotals {
  db.repairCounts();
  return db.holdings();
}
