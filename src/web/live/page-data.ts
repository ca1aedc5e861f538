import type { OperationOutcome } from '../../control/events.ts';
import type { OutputOf } from '../../control/operations.ts';
import { operationTable } from '../../control/operations.ts';
import { describeOutcome } from '../../control/presentation/outcome.ts';
import type { Message } from '../../control/presentation/rows/row.ts';
import { answer } from '../../control/server/perform.ts';
import type { Performer } from '../../control/server/perform.ts';
import { describeError } from '../../system/errors.ts';
import type { Clock } from '../../system/time/clock.ts';
import { SensorHistory } from './sensor-history.ts';

/** Everything that the page shows, at one moment. */
export interface Snapshot {
  readonly atMs: number;
  readonly monotonicMs: number;
  readonly status: OutputOf<'status'>;
  readonly history: OutputOf<'history'>;
  readonly sensors: OutputOf<'sensors'>;
  readonly security: OutputOf<'securityLog'>;
  readonly traces: SensorHistory;
  /** The end of the last operation since the page was started. */
  readonly lastEnd: { readonly atMs: number; readonly said: Message } | undefined;
}

export interface PageDataDeps extends Performer {
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  readonly gatherMs: number;
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

  /** A snapshot that is not older than `maxAgeMs`. */
  async snapshot(maxAgeMs: number): Promise<Snapshot> {
    const { clock } = this.#deps;
    const gathered = this.#gathered;
    if (gathered !== undefined && clock.monotonicMs() - gathered.monotonicMs <= maxAgeMs) return gathered;
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
    this.#traces.note(await this.#ask('sensors'), this.#deps.clock.monotonicMs());
  }

  noteEnd(end: OperationOutcome | { readonly error: unknown }): void {
    const said: Message =
      'error' in end ? { tone: 'bad', text: `It failed: ${describeError(end.error)}` } : describeOutcome(end, false);
    this.#lastEnd = { atMs: this.#deps.clock.nowMs(), said };
  }

  async #gather(): Promise<Snapshot> {
    const { clock } = this.#deps;
    const atMs = clock.monotonicMs();
    const [status, history, sensors, security] = await Promise.all([
      this.#ask('status'),
      this.#ask('history'),
      this.#ask('sensors'),
      this.#ask('securityLog'),
    ]);
    const nowMs = clock.nowMs();
    this.#traces.note(sensors, atMs);
    return {
      atMs: nowMs,
      monotonicMs: atMs,
      status,
      history,
      sensors,
      security,
      traces: this.#traces,
      lastEnd: this.#lastEnd,
    };
  }

  async #ask<Name extends 'status' | 'history' | 'sensors' | 'securityLog'>(name: Name): Promise<OutputOf<Name>>;
  async #ask(name: 'status' | 'history' | 'sensors' | 'securityLog'): Promise<object> {
    const signal = AbortSignal.timeout(this.#deps.gatherMs);
    return answer(this.#deps, { name, entry: operationTable[name], input: {} }, signal);
  }
}
