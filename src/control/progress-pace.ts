import type { Clock } from '../system/time/clock.ts';
import type { OnEvent, OperationEvent } from './events.ts';

/** How often a person or a program is told of received bytes. */
const transferEventIntervalMs = 200;

/**
 * Lets every phase through, and of the events that count bytes one per interval. Events in between replace each other; the
 * newest is told before the next phase, so that a finished transfer is seen finished.
 */
export class ProgressPace {
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

  /** Tells what is held back. */
  flush(): void {
    if (this.#held === undefined) return;
    const event = this.#held;
    this.#held = undefined;
    this.#toldAtMs = this.#clock.monotonicMs();
    this.#tell(event);
  }
}
