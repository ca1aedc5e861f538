import { describeError } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import { RateBound } from '../system/time/rate-bound.ts';
import { TelemetryError } from './errors.ts';
import type { TelemetrySettings } from './settings.ts';
import type { Intake, Reading } from './sources/source.ts';

export interface IntakeOptions {
  readonly rate: TelemetrySettings['rate'];
  readonly clock: Clock;
  /** Ends every rest. */
  readonly signal: AbortSignal;
  /** Takes what is within the bounds; throws nothing. */
  readonly onReading: (reading: Reading) => void;
  /** Something came and is not used. */
  readonly onDrop: (why: string) => void;
}

/** All that comes together after a silence, like what a broker has retained. */
const POINTS_BURST_SECONDS = 5;
const BYTES_BURST_SECONDS = 1;

/** What a source that speaks by itself hands on, within its bounds. */
export class BoundedIntake implements Intake {
  readonly #options: IntakeOptions;
  readonly #points: RateBound;
  readonly #bytes: RateBound;

  constructor(options: IntakeOptions) {
    const { rate, clock } = options;
    this.#options = options;
    this.#points = new RateBound(rate.pointsPerSecond, POINTS_BURST_SECONDS, clock);
    this.#bytes = new RateBound(rate.bytesPerSecond, BYTES_BURST_SECONDS, clock);
  }

  take(read: () => Reading): void {
    const { rate, onReading } = this.#options;
    if (!this.#points.admits()) {
      this.drop(`more than ${rate.pointsPerSecond} a second`);
      return;
    }
    try {
      const reading = read();
      if (reading !== undefined) onReading(reading);
    } catch (error) {
      if (!(error instanceof TelemetryError) || error.code !== 'value-unusable') throw error;
      this.drop(describeError(error));
    }
  }

  drop(why: string): void {
    this.#options.onDrop(why);
  }

  rest(bytes: number): Promise<void> | undefined {
    const { clock, signal } = this.#options;
    const pauseMs = this.#bytes.spend(bytes);
    // whoever rests looks at the signal afterwards
    return pauseMs === 0 ? undefined : clock.sleep(pauseMs, signal).catch(() => {});
  }
}
