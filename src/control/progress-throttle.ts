import type { Clock } from '../system/time/clock.ts';
import type { OnEvent, OperationEvent } from './events.ts';

/** The minimum interval between two transfer events. */
const transferEventIntervalMs = 200;

/**
 * Passes on every phase, but only one transfer event per interval. The latest one is passed on before the next phase,
 * so that a finished transfer is shown at its full size.
 */
export class ProgressThrottle {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #emit: OnEvent;
  readonly #intervalMs: number;
  #pending: OperationEvent | undefined;
  #emittedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonicMs'>, emit: OnEvent, intervalMs = transferEventIntervalMs) {
    this.#clock = clock;
    this.#emit = emit;
    this.#intervalMs = intervalMs;
  }

  push(event: OperationEvent): void {
    if (event.kind !== 'transfer' && event.kind !== 'board') {
      this.flush();
      this.#emit(event);
      return;
    }
    this.#pending = event;
    if (this.#clock.monotonicMs() - this.#emittedAtMs >= this.#intervalMs) this.flush();
  }

  /** Passes on the pending event. */
  flush(): void {
    if (this.#pending === undefined) return;
    const event = this.#pending;
    this.#pending = undefined;
    this.#emittedAtMs = this.#clock.monotonicMs();
    this.#emit(event);
  }
}
