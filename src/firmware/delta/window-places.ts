import type { ArtifactPlace } from '../../update/ports.ts';

/** However small the chunks are in which the file comes. */
export const MAX_PLACES = 128;

interface Seen<Place> {
  /** Of the file: so much of it came before the place. */
  readonly takenBytes: number;
  readonly place: Place;
}

/**
 * Where a delta may go on: the last place of the transfer before the end of a window that was rebuilt. What came between the
 * two is fetched again, and passed over.
 */
export class WindowPlaces<Place> {
  readonly #beginBytes: number;
  readonly #placeNow: () => Place | undefined;
  /** In their order. But for the first one they lie behind the end of the last window. */
  #seen: readonly Seen<Place>[] = [];
  #endBytes: number;
  #isWithin = false;

  /** `beginBytes`: so much of the file came before what is to be watched. `placeNow`: undefined where nobody could go on. */
  constructor(beginBytes: number, placeNow: () => Place | undefined) {
    this.#beginBytes = beginBytes;
    this.#endBytes = beginBytes;
    this.#placeNow = placeNow;
  }

  get size(): number {
    return this.#seen.length;
  }

  /** The same bytes: when the next are asked for, those before were taken. */
  async *through(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    let takenBytes = this.#beginBytes;
    this.#note(takenBytes);
    for await (const chunk of content) {
      yield chunk;
      takenBytes += chunk.length;
      this.#note(takenBytes);
    }
  }

  windowBegins(): void {
    this.#isWithin = true;
  }

  /** So much of what is watched was used, up to the end of a window. */
  windowEnds(usedBytes: number): void {
    this.#isWithin = false;
    this.#endBytes = this.#beginBytes + usedBytes;
    const before = this.#seen.findLastIndex(({ takenBytes }) => takenBytes <= this.#endBytes);
    this.#seen = this.#seen.slice(Math.max(0, before));
  }

  /** Undefined: a window is half rebuilt, or nobody could go on behind the last one. */
  get last(): { readonly place: Place; readonly delta: NonNullable<ArtifactPlace['delta']> } | undefined {
    const seen = this.#seen.findLast(({ takenBytes }) => takenBytes <= this.#endBytes);
    if (seen === undefined || this.#isWithin) return undefined;
    const { place, takenBytes } = seen;
    return { place, delta: { takenBytes, skipBytes: this.#endBytes - takenBytes } };
  }

  #note(takenBytes: number): void {
    const place = this.#placeNow();
    if (place === undefined) return;
    const all = [...this.#seen, { takenBytes, place }];
    this.#seen = all.length > MAX_PLACES ? all.filter((_, index) => index % 2 === 0) : all;
  }
}
