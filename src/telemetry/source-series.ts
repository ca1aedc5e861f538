import type { Clock } from '../system/time/clock.ts';
import { Wakeup } from './delivery/wakeup.ts';
import { Measurement } from './measurement.ts';
import type { OnDrop } from './measurement.ts';
import { RecentMap } from './recent-map.ts';
import type { MeasurementSettings, OutputSettings } from './settings.ts';
import type { Reading } from './sources/source.ts';

export interface SourceSeriesDeps {
  readonly clock: Clock;
  /** Takes a value to send, of this series. */
  readonly onValue: (to: OutputSettings['to'], value: unknown, series: string) => void;
  readonly onDrop: OnDrop;
}

/** Topics of a source whose readings are reduced separately. */
const MAX_SERIES = 1_000;
/** The next reading usually ends a period. Only a source that is late for this time costs a wakeup. */
const LATE_MS = 1_000;
/** A longer timer fires immediately. */
const LONGEST_SLEEP_MS = 2 ** 31 - 1;

/** Reduces the readings of one source, each series separately. A period also ends if no further reading comes. */
export class SourceSeries {
  readonly #deps: SourceSeriesDeps;
  readonly #measurements: RecentMap<Measurement>;
  readonly #changed = new Wakeup();
  /** The end of the period that ends first. */
  #endsMs = Number.POSITIVE_INFINITY;

  constructor(settings: Pick<MeasurementSettings, 'outputs' | 'ignore'>, deps: SourceSeriesDeps) {
    this.#deps = deps;
    const onForget = (series: string, measurement: Measurement): void => this.#end(series, measurement);
    this.#measurements = new RecentMap(MAX_SERIES, () => new Measurement(settings), onForget);
  }

  /** Returns true if an output uses the reading. */
  push(reading: Reading, series: string): boolean {
    const { clock, onValue, onDrop } = this.#deps;
    const nowMs = clock.monotonicMs();
    const measurement = this.#measurements.get(series);
    const isUsed = measurement.push(reading, nowMs, (to, value) => onValue(to, value, series), onDrop);
    if (measurement.endsMs < this.#endsMs || nowMs >= this.#endsMs) this.#changed.notify();
    return isUsed;
  }

  /** Ends periods until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    for (;;) {
      this.#endsMs = Math.min(...[...this.#measurements].map(([, measurement]) => measurement.endsMs));
      const waitMs = this.#endsMs + LATE_MS - clock.monotonicMs();
      if (waitMs <= 0) this.end(clock.monotonicMs());
      else await this.#changed.wait(Math.min(waitMs, LONGEST_SLEEP_MS), clock, signal);
    }
  }

  /** Ends the periods that are over at this time, or all of them. */
  end(nowMs?: number): void {
    for (const [series, measurement] of this.#measurements) this.#end(series, measurement, nowMs);
  }

  #end(series: string, measurement: Measurement, nowMs?: number): void {
    measurement.end((to, value) => this.#deps.onValue(to, value, series), nowMs);
  }
}
