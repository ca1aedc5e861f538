const FIRST_MS = 60_000;
const LONGEST_MS = 60 * 60_000;

/**
 * The pause after a round that did not settle. It doubles with each such round in a row, since each may write something
 * only to take it back.
 */
export class RecoveryBackoff {
  #rounds = 0;

  /** The pause after one more such round. */
  nextMs(): number {
    const pauseMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#rounds);
    this.#rounds += 1;
    return pauseMs;
  }

  /** Ends the row after a round that settled. */
  end(): void {
    this.#rounds = 0;
  }
}
