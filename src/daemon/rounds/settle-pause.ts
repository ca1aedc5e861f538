const FIRST_MS = 60_000;
const LONGEST_MS = 60 * 60_000;

/** Between rounds in a row that did not settle: twice as long each time, since each may write what it then takes back. */
export class SettlePause {
  #rounds = 0;

  /** One more that did not. */
  nextMs(): number {
    const pauseMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#rounds);
    this.#rounds += 1;
    return pauseMs;
  }

  /** One that did. */
  end(): void {
    this.#rounds = 0;
  }
}
