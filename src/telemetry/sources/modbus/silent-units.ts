import type { Clock } from '../../../system/time/clock.ts';

/** A unit without an answer since its last request. */
interface SilentUnit {
  /** The number of requests without an answer, while another unit answered. */
  readonly failures: number;
  /** The time of the last of them. */
  readonly failedMs: number;
  /** Until then, requests fail with this error. */
  readonly untilMs: number;
  readonly error: unknown;
}

/** A single answer may be lost. */
const TOLERATED = 1;
/** The longest pause, as a multiple of the time that a request takes. */
const LONGEST_PAUSE = 6;

/**
 * Keeps silent units from holding a line or a connection while another unit answers: after two requests without an
 * answer, a unit gets one request per pause. The pause is a multiple of the time that the request took, which grows with
 * each one, and with the number of silent units: together they take a seventh of the time.
 */
export class SilentUnits {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #units = new Map<number, SilentUnit>();
  /** The time of the last answer of any unit. */
  #answeredMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Makes a request to a unit, or throws its last error during a pause. A unit gets one request at a time. */
  async ask(
    { unit: number, timeoutMs }: { readonly unit: number; readonly timeoutMs: number },
    request: () => Promise<Uint8Array>,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const startMs = this.#clock.monotonicMs();
    const unit = this.#units.get(number);
    if (unit !== undefined && startMs < unit.untilMs) throw unit.error;
    try {
      const pdu = await request();
      this.#units.delete(number);
      this.#answeredMs = this.#clock.monotonicMs();
      return pdu;
    } catch (error) {
      signal.throwIfAborted();
      if (unit === undefined || this.#answeredMs > unit.failedMs) {
        const failures = (unit?.failures ?? 0) + 1;
        const endMs = this.#clock.monotonicMs();
        const pauseMs = Math.min(endMs - startMs, timeoutMs) * this.#pauseAfter(number, failures);
        this.#units.set(number, { failures, failedMs: startMs, untilMs: endMs + pauseMs, error });
      }
      throw error;
    }
  }

  /** Returns the pause as a multiple of the time that a request takes. */
  #pauseAfter(number: number, failures: number): number {
    if (failures <= TOLERATED) return 0;
    const others = [...this.#units].filter(([other, unit]) => other !== number && unit.failures > TOLERATED);
    return Math.min(LONGEST_PAUSE, 2 ** (failures - TOLERATED - 1)) * (others.length + 1);
  }
}
