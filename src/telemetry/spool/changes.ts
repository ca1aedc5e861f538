import type { PointClass } from '../point.ts';
import type { StreamRecord, Tally } from './database/spool-database.ts';
import type { LivePoint } from './pending-points.ts';
import type { Stream, StreamBook } from './streams.ts';

/** What one transaction changes in the counts; takes effect when it is done. */
export class Changes {
  readonly #book: StreamBook;
  readonly #changes = new Map<Stream, { points: number; bytes: number }>();

  constructor(book: StreamBook) {
    this.#book = book;
  }

  more({ stream, bytes }: LivePoint): void {
    this.#add(stream, 1, bytes);
  }

  less({ stream, points, bytes }: Tally): void {
    const known = this.#book.byId(stream);
    if (known !== undefined) this.#add(known, -points, -bytes);
  }

  streams(): Iterable<Stream> {
    return this.#changes.keys();
  }

  recordOf(stream: Stream): StreamRecord {
    const record = this.#book.recordOf(stream);
    const { points = 0, bytes = 0 } = this.#changes.get(stream) ?? {};
    return { ...record, points: record.points + points, bytes: record.bytes + bytes };
  }

  bytesPerClass(): Record<PointClass, number> {
    const sums: Record<PointClass, number> = { urgent: 0, normal: 0, bulk: 0 };
    for (const stream of this.#book.all()) sums[stream.class] += stream.bytes;
    for (const [stream, { bytes }] of this.#changes) sums[stream.class] += bytes;
    return sums;
  }

  apply(): void {
    for (const [stream, { points, bytes }] of this.#changes) {
      stream.points += points;
      stream.bytes += bytes;
    }
  }

  #add(stream: Stream, points: number, bytes: number): void {
    const change = this.#changes.get(stream) ?? { points: 0, bytes: 0 };
    this.#changes.set(stream, { points: change.points + points, bytes: change.bytes + bytes });
  }
}
