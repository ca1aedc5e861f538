import type { Exchange } from './protocol.ts';

/** Assumed until one was measured: the latency timer of an FTDI adapter, and then some. */
const firstRoundTripMs = 25;
/** What a busy gateway may sleep between two steps. */
const slackMs = 100;
/** An answer may take so many measured round trips longer than the wire and the chip need. */
const roundTrips = 4;

/** How long turns may take on this line: from its bits per second, the chip's work, and the measured round trip. */
export class Pace {
  readonly #bitsPerCharacter: number;
  #baud: number;
  #roundTripMs: number | undefined;

  constructor(baud: number, bitsPerCharacter: number) {
    this.#baud = baud;
    this.#bitsPerCharacter = bitsPerCharacter;
  }

  /** Smoothed over the answered turns in which the chip had nothing to do; undefined before the first. */
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
