import type { ClockState } from './clock/clock.ts';
import type { DeliveryFigures } from './delivery/delivery.ts';
import type { SourceFigures } from './source-runner.ts';
import type { SpoolFigures } from './spool/spool-figures.ts';

export interface TelemetryStatus {
  readonly spool: SpoolFigures;
  readonly delivery: DeliveryFigures;
  readonly clock: ClockState;
  readonly sources: readonly SourceFigures[];
  readonly watches: readonly { readonly id: string; readonly lastError: string | undefined }[];
  /** The newest dead letters. */
  readonly deadLetters: readonly {
    readonly event: string;
    readonly at: string;
    readonly value: string;
    readonly reason: string;
  }[];
}
