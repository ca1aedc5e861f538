import type { QueueStats } from '../../control/telemetry-protocol.ts';

type DropCounts = QueueStats['dropped'];
/** The reason why a datapoint was not delivered. */
export type DropReason = keyof DropCounts;

/** Counts the datapoints that were not delivered, since the agent started. */
export class Drops {
  readonly #counts: Record<DropReason, number> = {
    'too-old': 0,
    'queue-full': 0,
    'memory-full': 0,
    refused: 0,
    damaged: 0,
  };

  get counts(): DropCounts {
    return { ...this.#counts };
  }

  note(reason: DropReason, points: number): void {
    this.#counts[reason] += points;
  }
}
