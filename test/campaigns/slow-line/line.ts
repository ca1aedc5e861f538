import { ServiceError } from '../../../src/service/errors.ts';
import type { RequestText } from '../../../src/service/rest/firmware-download.ts';
import type { Clock } from '../../../src/system/time/clock.ts';
import type { ReadableText } from '../../fakes/service/firmware-text.ts';

export interface LineOptions {
  readonly bytesPerSecond: number;
  /** Alternates between working for `upMs` and being dead. */
  readonly upMs: number;
  readonly downMs: number;
  /** Interval at which the gateway is powered off. */
  readonly offEveryMs: number;
}

/** The gateway lost its power: the program stops. */
export class PowerCut extends Error {}

const START_MS = Date.UTC(2026, 10, 1);
const CHUNK_BYTES = 16 * 1024;
/**
 * Time for a connection and a request, and for data that is in flight when the connection drops: sent, and never
 * received.
 */
const ROUND_TRIP_MS = 600;
const IN_FLIGHT_BYTES = 64 * 1024;

/** A slow line that drops, a gateway that is switched off, and a service at the other end, in time that costs nothing. */
export class Line {
  readonly #options: LineOptions;
  readonly #text: ReadableText;
  #nowMs = 0;
  #offAtMs: number;
  readonly counts = { connections: 0, drops: 0, powerCuts: 0, sentBytes: 0, receivedBytes: 0 };

  constructor(options: LineOptions, text: ReadableText) {
    this.#options = options;
    this.#text = text;
    this.#offAtMs = options.offEveryMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  readonly clock: Clock = {
    nowMs: () => START_MS + this.#nowMs,
    monotonicMs: () => this.#nowMs,
    sleep: async (ms, signal) => {
      signal.throwIfAborted();
      this.#pass(ms);
    },
  };

  readonly request: RequestText = async (range) => {
    this.#pass(ROUND_TRIP_MS);
    if (this.#isDown) throw new ServiceError({ code: 'connection-failed', why: 'the line is dead' });
    this.counts.connections += 1;
    const { sizeBytes } = this.#text;
    const first = range?.offset ?? 0;
    const headers: Readonly<Record<string, string>> = {
      etag: '"text-1"',
      'content-length': String(sizeBytes - first),
      ...(range === undefined ? {} : { 'content-range': `bytes ${first}-${sizeBytes - 1}/${sizeBytes}` }),
    };
    return {
      status: range === undefined ? 200 : 206,
      header: (name) => headers[name],
      chunks: () => this.#receive(first),
      [Symbol.asyncDispose]: async () => {},
    };
  };

  async *#receive(first: number): AsyncGenerator<Uint8Array, void, undefined> {
    const lifetime = this.#upPeriod;
    for (const piece of this.#text.read(first)) {
      for (let at = 0; at < piece.length; at += CHUNK_BYTES) {
        const chunk = piece.subarray(at, at + CHUNK_BYTES);
        this.counts.sentBytes += chunk.length;
        this.#pass((chunk.length / this.#options.bytesPerSecond) * 1000);
        if (this.#isDown || this.#upPeriod !== lifetime) this.#drop();
        this.counts.receivedBytes += chunk.length;
        yield chunk;
      }
    }
  }

  #drop(): never {
    this.counts.drops += 1;
    this.counts.sentBytes += IN_FLIGHT_BYTES;
    throw new ServiceError({ code: 'connection-reset', why: 'the line dropped' });
  }

  #pass(ms: number): void {
    this.#nowMs += ms;
    if (this.#nowMs < this.#offAtMs) return;
    this.counts.powerCuts += 1;
    this.#offAtMs = this.#nowMs + this.#options.offEveryMs;
    throw new PowerCut('switched off');
  }

  get #upPeriod(): number {
    return Math.floor(this.#nowMs / (this.#options.upMs + this.#options.downMs));
  }

  get #isDown(): boolean {
    const { upMs, downMs } = this.#options;
    return this.#nowMs % (upMs + downMs) >= upMs;
  }
}
