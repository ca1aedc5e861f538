import type { Clock } from '../system/time/clock.ts';
import type { OnEvent, OperationEvent } from './events.ts';

/** Received bytes are told this often at most. */
const transferEventIntervalMs = 200;

/**
 * Passes on every phase, but of the events that count bytes only one per interval. The newest of them is passed on
 * before the next phase, so that a finished transfer is seen at its full size.
 */
export class ProgressThrottle {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #tell: OnEvent;
  readonly #intervalMs: number;
  #held: OperationEvent | undefined;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonicMs'>, tell: OnEvent, intervalMs = transferEventIntervalMs) {
    this.#clock = clock;
    this.#tell = tell;
    this.#intervalMs = intervalMs;
  }

  push(event: OperationEvent): void {
    if (event.kind !== 'transfer' && event.kind !== 'board') {
      this.flush();
      this.#tell(event);
      return;
    }
    this.#held = event;
    if (this.#clock.monotonicMs() - this.#toldAtMs >= this.#intervalMs) this.flush();
  }

  /** Passes on the event that is held back. */
  flush(): void {
    if (this.#held === undefined) return;
    const event = this.#held;
    this.#held = undefined;
    this.#toldAtMs = this.#clock.monotonicMs();
    this.#tell(event);
  }
}
