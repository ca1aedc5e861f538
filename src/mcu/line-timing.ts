import type { Exchange } from './protocol.ts';

/** The assumed round trip before one was measured: somewhat more than the latency timer of an FTDI adapter. */
const firstRoundTripMs = 25;
/** The time that a busy gateway may lose between two steps. */
const slackMs = 100;
/** An answer may take this number of measured round trips longer than wire and chip need. */
const roundTrips = 4;

/**
 * The allowed time of turns on this line, computed from its bits per second, the chip's work, and the measured round
 * trip.
 */
export class LineTiming {
  readonly #bitsPerCharacter: number;
  #baud: number;
  #roundTripMs: number | undefined;

  constructor(baud: number, bitsPerCharacter: number) {
    this.#baud = baud;
    this.#bitsPerCharacter = bitsPerCharacter;
  }

  /**
   * The round trip, smoothed over those turns in which the chip had nothing to do. Undefined before the first
   * measurement.
   */
  get roundTripMs(): number | undefined {
    return this.#roundTripMs;
  }

  changeBaud(baud: number): void {
    this.#baud = baud;
  }

  wireMs(bytes: number): number {
    return (bytes * this.#bitsPerCharacter * 1000) / this.#baud;
  }

  deadlineMs({ send, answer, workMs }: Exchange): number {
    const waitMs = roundTrips * (this.#roundTripMs ?? firstRoundTripMs) + slackMs;
    return this.wireMs(send.byteLength + answer.atMost) + workMs + waitMs;
  }

  observe({ send, workMs }: Exchange, answerBytes: number, elapsedMs: number): void {
    if (workMs > 0) return;
    const sampleMs = Math.max(0, elapsedMs - this.wireMs(send.byteLength + answerBytes));
    this.#roundTripMs = this.#roundTripMs === undefined ? sampleMs : this.#roundTripMs * 0.875 + sampleMs * 0.125;
  }
}
