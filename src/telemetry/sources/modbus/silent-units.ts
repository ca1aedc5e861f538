import type { Clock } from '../../../system/time/clock.ts';
import { isGatewayException } from './modbus-codec.ts';

interface Unit {
  /** The number of requests without an answer of the unit, while another one answered. */
  failures: number;
  /** The time of the last of them. */
  failedMs: number;
  /** Until then, requests fail like the last one. */
  untilMs: number;
  last: Promise<Uint8Array> | undefined;
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
  readonly #units = new Map<number, Unit>();
  /** The time of the last answer of any unit. */
  #answeredMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Makes a request to a unit, or repeats its last failure during a pause. A unit gets one request at a time. */
  async ask(
    { unit: number, timeoutMs }: { readonly unit: number; readonly timeoutMs: number },
    request: () => Promise<Uint8Array>,
  ): Promise<Uint8Array> {
    const unit = this.#units.get(number) ?? { failures: 0, failedMs: 0, untilMs: 0, last: undefined };
    this.#units.set(number, unit);
    const startMs = this.#clock.monotonicMs();
    if (unit.last !== undefined && startMs < unit.untilMs) return unit.last;
    unit.last = request();
    const isAnswered = await unit.last.then(
      (pdu) => !isGatewayException(pdu),
      () => false,
    );
    const endMs = this.#clock.monotonicMs();
    if (isAnswered) {
      unit.failures = 0;
      this.#answeredMs = endMs;
    } else if (unit.failures === 0 || this.#answeredMs > unit.failedMs) {
      unit.failures += 1;
      unit.failedMs = startMs;
      unit.untilMs = endMs + Math.min(endMs - startMs, timeoutMs) * this.#pauseAfter(unit);
    }
    return unit.last;
  }

  #pauseAfter({ failures }: Unit): number {
    if (failures <= TOLERATED) return 0;
    const silent = this.#units.values().filter((unit) => unit.failures > TOLERATED);
    return Math.min(LONGEST_PAUSE, 2 ** (failures - TOLERATED - 1)) * silent.toArray().length;
  }
}
