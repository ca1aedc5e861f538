import type { ArtifactPlace } from '../../update/ports.ts';

/** The bound for the places that are kept, however small the chunks of the file are. */
export const MAX_PLACES = 128;

interface Seen<Place> {
  /** The bytes of the file before the place. */
  readonly takenBytes: number;
  readonly place: Place;
}

/**
 * Finds where a delta can continue: at the last place of the transfer before the end of a rebuilt window. The bytes
 * between the place and the window's end are fetched again and skipped.
 */
export class WindowOffsets<Place> {
  readonly #beginBytes: number;
  readonly #placeNow: () => Place | undefined;
  /** The places in their order. All except the first are after the end of the last window. */
  #seen: readonly Seen<Place>[] = [];
  #endBytes: number;
  #isWithin = false;

  /**
   * `beginBytes` of the file came before what is observed here. `placeNow` returns undefined where no transfer could
   * continue.
   */
  constructor(beginBytes: number, placeNow: () => Place | undefined) {
    this.#beginBytes = beginBytes;
    this.#endBytes = beginBytes;
    this.#placeNow = placeNow;
  }

  get size(): number {
    return this.#seen.length;
  }

  /** Passes on the same bytes. When the next chunk is requested, the previous one was consumed. */
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

  /** Records that a window was rebuilt; `usedBytes` of the observed bytes were used so far. */
  windowEnds(usedBytes: number): void {
    this.#isWithin = false;
    this.#endBytes = this.#beginBytes + usedBytes;
    const before = this.#seen.findLastIndex(({ takenBytes }) => takenBytes <= this.#endBytes);
    this.#seen = this.#seen.slice(Math.max(0, before));
  }

  /** The place where the delta can continue. Undefined if a window is half rebuilt, or no place is known. */
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
