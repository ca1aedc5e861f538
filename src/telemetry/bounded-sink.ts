import type { DropReason } from '../control/telemetry-protocol.ts';
import { describeError } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import { TokenBucket } from '../system/time/token-bucket.ts';
import { TelemetryError } from './errors.ts';
import type { OnDrop } from './measurement.ts';
import type { TelemetrySettings } from './settings.ts';
import type { ReadingSink, Reading } from './sources/source.ts';

export interface IntakeDeps {
  readonly rate: TelemetrySettings['rate'];
  readonly clock: Clock;
  /** Ends every pause. */
  readonly signal: AbortSignal;
  readonly onConnected: () => void;
  /** Takes a reading that is within the bounds; must not throw. */
  readonly onReading: (reading: Reading, series: string) => void;
  /** Called when something arrived from which no reading was picked. */
  readonly onUnmatched: (text: string) => void;
  /** Called when something arrived that is not used. */
  readonly onDrop: OnDrop;
}

/** The burst that is allowed after a silence, for example everything that a broker has retained. */
const POINTS_BURST_SECONDS = 5;
const BYTES_BURST_SECONDS = 1;

/** Guarantee `hostile-input`: bounds the readings of a push source. */
export class BoundedSink implements ReadingSink {
  readonly #deps: IntakeDeps;
  readonly #points: TokenBucket;
  readonly #bytes: TokenBucket;

  constructor(deps: IntakeDeps) {
    const { rate, clock } = deps;
    this.#deps = deps;
    this.#points = new TokenBucket(rate.pointsPerSecond, POINTS_BURST_SECONDS, clock);
    this.#bytes = new TokenBucket(rate.bytesPerSecond, BYTES_BURST_SECONDS, clock);
  }

  connected(): void {
    this.#deps.onConnected();
  }

  take(read: () => Reading, text = '', series = ''): void {
    const { rate, onReading, onUnmatched } = this.#deps;
    if (!this.#points.admits()) {
      this.drop('too-fast', `more than ${rate.pointsPerSecond} a second`);
      return;
    }
    try {
      const reading = read();
      if (reading !== undefined) onReading(reading, series);
      else if (text.trim() !== '') onUnmatched(text);
    } catch (error) {
      if (!(error instanceof TelemetryError) || error.code !== 'value-invalid') throw error;
      this.drop('malformed', describeError(error));
    }
  }

  drop(reason: DropReason, why: string): void {
    this.#deps.onDrop(reason, why);
  }

  rest(bytes: number): Promise<void> | undefined {
    const { clock, signal } = this.#deps;
    const pauseMs = this.#bytes.spend(bytes);
    // the source checks the signal afterwards
    return pauseMs === 0 ? undefined : clock.sleep(pauseMs, signal).catch(() => {});
  }
}
