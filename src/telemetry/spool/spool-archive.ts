import type { Log } from '../../system/log/log.ts';
import type { Boots } from '../clock/boots.ts';
import type { PropertyQueue } from '../delivery/property-queue.ts';
import { pointClasses } from '../point.ts';
import type { PointClass, SpooledPoint } from '../point.ts';
import type { Batch, HeldBatch } from './batch.ts';
import { Changes } from './changes.ts';
import type { BootRecord, DeadLetter, PointRange, SpoolDatabase, StoredPoint } from './database/spool-database.ts';
import { SpoolDisk } from './database/spool-disk.ts';
import type { Drops } from './drops.ts';
import { evict } from './eviction.ts';
import type { Evicted, SpoolBounds } from './eviction.ts';
import type { FlashFigure } from './flash-figure.ts';
import type { LivePoint } from './pending-points.ts';
import type { Stream, StreamBook } from './streams.ts';

/** Rows that are read at once; what a batch is made of. */
const WINDOW = 1_000;
/** A file that is larger when it becomes empty gives its room back. */
const SHRINK_ABOVE_BYTES = 1024 * 1024;

export interface ArchiveOptions {
  readonly path: string;
  readonly bounds: SpoolBounds;
  readonly reserveBytes: number;
  readonly maxDeadLetters: number;
  readonly flash: FlashFigure;
  readonly monotonicMs: () => number;
  readonly sinceBootMs: () => number;
  readonly log: Log;
  readonly open?: ((path: string) => SpoolDatabase) | undefined;
}

export interface ArchiveParts {
  readonly book: StreamBook;
  readonly boots: Boots;
  readonly drops: Drops;
  readonly properties: PropertyQueue;
  /** The last seq that was given out; told of a file that has gone further. */
  readonly lastSeq: { current: number };
  readonly onShift: (by: number) => void;
}

/** Of streams whose newest points are on their way out of memory: the first of these, which may be on disk too. */
export type Ceilings = ReadonlyMap<Stream, number>;

interface Around {
  readonly without: readonly number[];
  readonly ceilings: Ceilings;
}

/** The part of the spool that is on disk: what is written, read back in batches, taken away, and given up. */
export class SpoolArchive implements Disposable {
  readonly #options: ArchiveOptions;
  readonly #parts: ArchiveParts;
  readonly #disk: SpoolDisk;
  readonly #savedBoots = new Map<number, BootRecord>();
  #removals: PointRange[] = [];
  #dead: DeadLetter[] = [];
  #window: HeldBatch[] = [];
  #inFlight: HeldBatch | undefined;

  constructor(options: ArchiveOptions, parts: ArchiveParts) {
    this.#options = options;
    this.#parts = parts;
    this.#disk = new SpoolDisk({
      ...options,
      knownStreams: () => [...parts.book.all()].map((stream) => parts.book.recordOf(stream)),
      knownLastSeq: () => parts.lastSeq.current,
      onOpen: (db, lost) => this.#adopt(db, lost),
    });
  }

  [Symbol.dispose](): void {
    this.#disk[Symbol.dispose]();
  }

  get trouble(): string | undefined {
    return this.#disk.trouble;
  }

  /** After a trouble it is tried, though there is nothing to write. */
  isUsable(): boolean {
    return this.trouble === undefined || this.#disk.write(true, () => {});
  }

  get points(): number {
    return this.#parts.book.all().reduce((sum, { points }) => sum + points, 0);
  }

  get bytes(): number {
    return this.#parts.book.all().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Something was settled that is still on disk. */
  get isDirty(): boolean {
    return this.#removals.length > 0 || this.#dead.length > 0;
  }

  /** Reads nothing but counts, so that it takes no time whatever waits. */
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

  /** When the oldest came, on this boot's clock (negative: before this boot); undefined: nothing waits, or nobody knows. */
  oldestAgeMs(): number | undefined {
    const oldest = this.#disk.read((db) => pointClasses.flatMap((table) => db.oldest(table, 1)), []);
    const ages = oldest.map((point) => this.#ageMs(point)).filter((age) => age !== undefined);
    return ages.length === 0 ? undefined : Math.max(...ages);
  }

  /** Writes points and properties, and takes away what was settled or is beyond the bounds: all at once, durably. */
  write(points: readonly LivePoint[]): boolean {
    const { book, drops, properties } = this.#parts;
    const removals = this.#removals;
    const dead = this.#dead;
    const grows = points.length > 0 || properties.unwritten().length > 0;
    let changes = new Changes(book);
    let evicted: readonly Evicted[] = [];
    const done = this.#disk.write(grows, (db) => {
      changes = new Changes(book);
      for (const range of removals) for (const tally of db.remove(range)) changes.less(tally);
      for (const letter of dead) db.bury(letter, this.#options.maxDeadLetters);
      for (const point of points) {
        db.addPoint(point.stream.class, this.#row(point));
        changes.more(point);
      }
      for (const { id, text } of properties.unwritten()) db.saveProperty(id, text);
      for (const id of properties.settled()) db.deleteProperty(id);
      evicted = this.#evict(db, changes);
      for (const stream of changes.streams()) db.saveStream(changes.recordOf(stream));
      this.#saveBoots(db);
    });
    if (!done) {
      this.#savedBoots.clear();
      return false;
    }
    changes.apply();
    for (const one of evicted) drops.note(one.reason, one.points);
    for (const point of points) point.stored = true;
    properties.written();
    this.#removals = this.#removals.slice(removals.length);
    this.#dead = this.#dead.slice(dead.length);
    this.#tidy();
    return true;
  }

  /** The next batch of what is on disk, most urgent and oldest first; only one is out at a time. */
  nextBatch(limit: number, skip: ReadonlySet<string>, ceilings: Ceilings): HeldBatch | undefined {
    if (this.#inFlight !== undefined) return undefined;
    const isFree = ({ stream }: HeldBatch): boolean => !skip.has(stream.event);
    if (!this.#window.some(isFree)) {
      if (this.isDirty && !this.write([])) return undefined;
      this.#window = this.points === 0 ? [] : this.#readWindow(limit, skip, ceilings);
    }
    const index = this.#window.findIndex(isFree);
    if (index === -1) return undefined;
    [this.#inFlight] = this.#window.splice(index, 1);
    return this.#inFlight;
  }

  /** The points between these two, both included, need not be kept any longer. */
  settle({ stream }: HeldBatch, first: number, last: number): void {
    this.#removals.push({ class: stream.class, first, last, stream: this.#parts.book.idOf(stream) });
  }

  bury(letter: DeadLetter): void {
    this.#dead.push(letter);
  }

  /** What is left of it is read again. */
  release(held: HeldBatch): void {
    if (this.#inFlight !== held) return;
    this.#inFlight = undefined;
    if (held.batch.points.some(({ seq }) => !this.#isSettled(held.stream, seq))) this.#window = [];
  }

  #evict(db: SpoolDatabase, changes: Changes): readonly Evicted[] {
    const holdings = { bytes: changes.bytesPerClass(), ageMs: (point: StoredPoint) => this.#ageMs(point) };
    const evicted = evict(db, this.#options.bounds, holdings);
    for (const one of evicted) changes.less(one);
    return evicted;
  }

  #isSettled(stream: Stream, seq: number): boolean {
    return this.#removals.some((range) => range.stream === stream.id && range.first <= seq && seq <= range.last);
  }

  #readWindow(limit: number, skip: ReadonlySet<string>, ceilings: Ceilings): HeldBatch[] {
    const { book } = this.#parts;
    const isExcluded = (stream: Stream): boolean => skip.has(stream.event);
    const without = [...book.all()].filter(isExcluded).flatMap(({ id }) => (id === undefined ? [] : [id]));
    for (const table of pointClasses) {
      const waiting = book.all().some((stream) => stream.class === table && stream.points > 0 && !isExcluded(stream));
      if (!waiting) continue;
      const batches = this.#readClass(table, limit, { without, ceilings });
      if (batches.length > 0) return batches;
    }
    return [];
  }

  /** Streams whose oldest point has no time yet are passed over. */
  #readClass(table: PointClass, limit: number, around: Around): HeldBatch[] {
    const passedOver = new Set(around.without);
    for (;;) {
      const rows = this.#disk.read((db) => db.oldest(table, WINDOW, [...passedOver]), []);
      const byStream = Map.groupBy(rows, ({ stream }) => stream);
      const batches = [...byStream].flatMap(([id, points]) => this.#batches(id, points, limit, around.ceilings));
      if (rows.length === 0 || batches.length > 0) return batches;
      for (const id of byStream.keys()) passedOver.add(id);
    }
  }

  #batches(id: number, rows: readonly StoredPoint[], limit: number, ceilings: Ceilings): HeldBatch[] {
    const { book, boots } = this.#parts;
    const stream = book.byId(id);
    if (stream === undefined) return [];
    const ceiling = ceilings.get(stream) ?? Number.POSITIVE_INFINITY;
    const points: SpooledPoint[] = [];
    for (const { seq, atMs, boot, sinceBootMs, text } of rows) {
      const time = atMs ?? boots.wallMs(boot, sinceBootMs);
      if (time === undefined || seq >= ceiling) break;
      points.push({ seq, atMs: time, text });
    }
    const batches: HeldBatch[] = [];
    for (let start = 0; start < points.length; start += limit) {
      const batch: Batch = {
        lane: 'backlog',
        event: stream.event,
        class: stream.class,
        points: points.slice(start, start + limit),
      };
      batches.push({ batch, stream, live: [], shift: 0 });
    }
    return batches;
  }

  #row({ seq, stream, atMs, sinceBootMs, text }: LivePoint): StoredPoint {
    const { book, boots } = this.#parts;
    if (atMs === undefined) boots.note(sinceBootMs);
    return { seq, stream: book.idOf(stream), atMs, boot: boots.current.id, sinceBootMs, text };
  }

  #ageMs({ boot, sinceBootMs }: StoredPoint): number | undefined {
    return this.#parts.boots.ageMs(boot, sinceBootMs, this.#options.sinceBootMs());
  }

  #saveBoots(db: SpoolDatabase): void {
    for (const boot of this.#parts.boots.all) {
      if (this.#savedBoots.get(boot.id) === boot) continue;
      db.saveBoot(boot);
      this.#savedBoots.set(boot.id, boot);
    }
  }

  #adopt(db: SpoolDatabase, lost: number): void {
    const { book, boots, drops, properties, lastSeq, onShift } = this.#parts;
    const isThisBoot = boots.adopt(db.boots());
    this.#savedBoots.clear();
    book.adopt(db.streams(), isThisBoot);
    properties.adopt(db.properties());
    const stored = db.lastSeq();
    if (stored > lastSeq.current) {
      onShift(stored);
      lastSeq.current += stored;
    }
    this.#window = [];
    if (lost > 0) drops.note('damaged', lost);
  }

  /** Where nothing waits, nothing is to be dated any more either. */
  #tidy(): void {
    if (this.points > 0) return;
    const past = this.#parts.boots.forgetPast();
    this.#disk.read((db) => {
      for (const { id } of past) db.deleteBoot(id);
      if (db.fileBytes() > SHRINK_ABOVE_BYTES) db.shrink();
    }, undefined);
  }
}
