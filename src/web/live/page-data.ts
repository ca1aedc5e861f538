import type { OperationOutcome } from '../../control/events.ts';
import type { OutputOf } from '../../control/operations.ts';
import { describeOutcome } from '../../control/presentation/outcome.ts';
import type { Message } from '../../control/presentation/rows/row.ts';
import type { When } from '../../control/presentation/time.ts';
import { describeError } from '../../system/errors.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { PageDeps } from '../page-deps.ts';
import type { PageLimits } from '../page-limits.ts';
import { SensorHistory } from './sensor-history.ts';

/** Everything that the page shows, at one moment. */
export interface Snapshot {
  /** The time of the snapshot, for texts about it. */
  readonly when: When;
  readonly monotonicMs: number;
  readonly status: OutputOf<'status'>;
  readonly history: OutputOf<'history'>;
  readonly sensors: OutputOf<'sensors'>;
  readonly security: OutputOf<'securityLog'>;
  readonly traces: SensorHistory;
  /** The end of the last operation since the page was started. */
  readonly lastEnd: { readonly atMs: number; readonly said: Message } | undefined;
}

export interface PageDataDeps extends Pick<PageDeps, 'operations' | 'localOffset'> {
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly limits: Pick<PageLimits, 'gatherMs' | 'freshMs'>;
}

/** Gathers what is shown, once for all who ask at the same time. */
export class PageData {
  readonly #deps: PageDataDeps;
  readonly #traces = new SensorHistory();
  #lastEnd: Snapshot['lastEnd'];
  #gathered: Snapshot | undefined;
  #gathering: Promise<Snapshot> | undefined;

  constructor(deps: PageDataDeps) {
    this.#deps = deps;
  }

  /** Returns a snapshot that is fresh enough. */
  async snapshot(): Promise<Snapshot> {
    const { clock, limits } = this.#deps;
    const gathered = this.#gathered;
    if (gathered !== undefined && clock.monotonicMs() - gathered.monotonicMs <= limits.freshMs) return gathered;
    const gathering = this.#gathering ?? this.#gather();
    this.#gathering = gathering;
    try {
      const snapshot = await gathering;
      if (this.#gathering === gathering) this.#gathered = snapshot;
      return snapshot;
    } finally {
      if (this.#gathering === gathering) this.#gathering = undefined;
    }
  }

  /** Discards the snapshot that was gathered, or that is being gathered, since something has changed. */
  expire(): void {
    this.#gathering = undefined;
    this.#gathered = undefined;
  }

  /** Asks only the sensors, for their charts. */
  async sample(): Promise<void> {
    const { operations, limits, clock } = this.#deps;
    this.#traces.note(await operations.sensors({}, AbortSignal.timeout(limits.gatherMs)), clock.monotonicMs());
  }

  noteEnd(end: OperationOutcome | { readonly error: unknown }): void {
    const said: Message =
      'error' in end ? { tone: 'bad', text: `It failed: ${describeError(end.error)}` } : describeOutcome(end, false);
    this.#lastEnd = { atMs: this.#deps.clock.nowMs(), said };
  }

  async #gather(): Promise<Snapshot> {
    const { operations, clock, limits, localOffset } = this.#deps;
    const monotonicMs = clock.monotonicMs();
    const signal = AbortSignal.timeout(limits.gatherMs);
    const [status, history, sensors, security] = await Promise.all([
      operations.status({}, signal),
      operations.history({}, signal),
      operations.sensors({}, signal),
      operations.securityLog({}, signal),
    ]);
    this.#traces.note(sensors, monotonicMs);
    return {
      when: { nowMs: clock.nowMs(), localOffset },
      monotonicMs,
      status,
      history,
      sensors,
      security,
      traces: this.#traces,
      lastEnd: this.#lastEnd,
    };
  }
}
