import type { DropReason, SourceStats, SourceState } from '../../control/telemetry-protocol.ts';
import { AgentError, describeError } from '../../system/errors.ts';
import type { Clock } from '../../system/time/clock.ts';
import { TelemetryError } from '../errors.ts';
import { OPTIONAL_MS } from '../measurement.ts';
import type { Reading } from '../sources/source.ts';
import { ReadingRate } from './reading-rate.ts';
import type { RunnerDetails } from './sensor-report.ts';

/** A connection that lasts this long ends the failure before it. */
const STEADY_MS = 60_000;

/** The state of one source (connected, delivering, parsing), with counts of its readings, drops and failures. */
export class SourceProgress {
  readonly #name: string;
  readonly #clock: Clock;
  /** The longest time between two readings of a polled source that works. Undefined for a push source. */
  readonly #intervalMs: number | undefined;
  readonly #startedMs: number;
  readonly #pace = new ReadingRate();
  readonly #counts = { readings: 0, failures: 0, dropped: 0 };
  readonly #droppedFor: Partial<Record<DropReason, number>> = {};
  #failuresInARow = 0;
  #lastDrop: string | undefined;
  #lastReading: Reading;
  #lastError: AgentError | Error | undefined;
  #failingSinceMs: number | undefined;
  #connectedMs: number | undefined;
  /** The time of the last arrival on this connection. */
  #cameMs: number | undefined;
  #readMs: number | undefined;
  /** The time of the first drop after the last reading without one. */
  #unusedSinceMs: number | undefined;
  /** Arrivals without data after the last reading. They are counted as drops if no reading comes for ten minutes. */
  #empty: { readonly sinceMs: number; readonly count: number; readonly why: string } | undefined;

  constructor(name: string, clock: Clock, intervalMs: number | undefined) {
    this.#name = name;
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#startedMs = clock.monotonicMs();
  }

  get failuresInARow(): number {
    return this.#failuresInARow;
  }

  get dropped(): number {
    return this.#counts.dropped;
  }

  get #unusedForMs(): number | undefined {
    if (this.#cameMs === undefined || this.#unusedSinceMs === undefined) return undefined;
    return this.#cameMs - this.#unusedSinceMs;
  }

  get #state(): SourceState | undefined {
    if (this.#connectedMs === undefined) return undefined;
    if (this.#cameMs === undefined) return 'connected';
    const forMs = this.#unusedForMs;
    if (forMs !== undefined && (this.#readMs === undefined || forMs > OPTIONAL_MS)) return 'delivering';
    return this.#isPushed && !this.isReading ? 'connected' : 'parsing';
  }

  get #isPushed(): boolean {
    return this.#intervalMs === undefined;
  }

  /** The time since the next reading of a polled source was due, if that is long ago. */
  get #overdueMs(): number | undefined {
    if (this.#intervalMs === undefined) return undefined;
    const overdueMs = this.#clock.monotonicMs() - (this.#cameMs ?? this.#startedMs) - this.#intervalMs;
    return overdueMs >= OPTIONAL_MS ? overdueMs : undefined;
  }

  get #error(): AgentError | Error | undefined {
    if (this.#lastError !== undefined || this.#overdueMs === undefined) return this.#lastError;
    return new TelemetryError('source-timeout', `${this.#name}: the next reading is overdue`);
  }

  get figures(): SourceStats {
    const nowMs = this.#clock.monotonicMs();
    const state = this.#state;
    const failingForMs = this.#lastError === undefined ? this.#overdueMs : nowMs - (this.#failingSinceMs ?? nowMs);
    const error = this.#error;
    return {
      name: this.#name,
      state,
      ...this.#counts,
      lastReadingAgeMs: this.#readMs === undefined ? undefined : nowMs - this.#readMs,
      silentForMs: nowMs - (this.#readMs ?? this.#startedMs),
      droppedFor: { ...this.#droppedFor },
      lastDrop: this.#lastDrop,
      lastError: error && describeError(error),
      failingForMs: state === 'delivering' ? this.#unusedForMs : failingForMs,
    };
  }

  /** The figures for `agent sensors`. */
  get details(): SourceStats & RunnerDetails {
    const error = this.#error;
    return {
      ...this.figures,
      lastReading: this.#lastReading,
      perMinute: this.#pace.perMinute(this.#clock.monotonicMs()),
      lastErrorCode: error && codeOf(error),
      notice: this.#describeEmpty(),
    };
  }

  /** True if the source has read something lately, so that a line without a reading does not count as a drop. */
  get isReading(): boolean {
    return this.#readMs !== undefined && this.#clock.monotonicMs() - this.#readMs <= OPTIONAL_MS;
  }

  #describeEmpty(): string | undefined {
    const { count, why } = this.#empty ?? { count: 0 };
    return count === 0 || this.isReading ? undefined : `only ${why} (${count})`;
  }

  /** Ends a failure, except one by silence, which ends when something arrives. */
  connected(): void {
    this.#connectedMs = this.#clock.monotonicMs();
    if (this.#lastError !== undefined && codeOf(this.#lastError) !== 'source-timeout') this.#lastError = undefined;
  }

  came(): void {
    this.#cameMs = this.#clock.monotonicMs();
    this.#connectedMs ??= this.#cameMs;
    this.#lastError = undefined;
  }

  /** Notes arrivals that are not used. Returns true if they are counted. */
  drop(reason: DropReason, why: string, count = 1): boolean {
    const nowMs = this.#clock.monotonicMs();
    let counted = count;
    if (reason === 'empty') {
      const { sinceMs, count: before } = this.#empty ?? { sinceMs: nowMs, count: 0 };
      counted += before;
      const isBetweenReadings = nowMs - sinceMs <= OPTIONAL_MS;
      this.#empty = { sinceMs, count: isBetweenReadings ? counted : 0, why };
      if (isBetweenReadings) return false;
    }
    this.came();
    this.#counts.dropped += counted;
    this.#droppedFor[reason] = (this.#droppedFor[reason] ?? 0) + counted;
    this.#lastDrop = why;
    this.#unusedSinceMs ??= this.#empty?.sinceMs ?? nowMs;
    return true;
  }

  /** Notes a reading that was used, entirely or in part. Returns true if the source failed before it. */
  read(reading: Reading, isEntire: boolean): boolean {
    this.came();
    const hasFailed = this.#failingSinceMs !== undefined;
    const nowMs = this.#clock.monotonicMs();
    this.#counts.readings += 1;
    this.#readMs = nowMs;
    this.#lastReading = reading;
    this.#pace.note(nowMs);
    this.#failuresInARow = 0;
    this.#failingSinceMs = undefined;
    this.#empty = undefined;
    if (isEntire) this.#unusedSinceMs = undefined;
    return hasFailed;
  }

  /** Returns true if this is the first failure of several in a row. */
  fail(error: Error): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (this.#connectedMs !== undefined && nowMs - this.#connectedMs >= STEADY_MS) {
      this.#failuresInARow = 0;
      const hasWorked = this.#lastError === undefined && this.#unusedSinceMs === undefined;
      if (hasWorked) this.#failingSinceMs = undefined;
    }
    const isSilent = this.#isPushed && codeOf(error) === 'source-timeout';
    const sinceMs = (isSilent ? (this.#cameMs ?? this.#connectedMs) : undefined) ?? nowMs;
    this.#connectedMs = undefined;
    this.#cameMs = undefined;
    this.#counts.failures += 1;
    this.#failuresInARow += 1;
    this.#lastError = error;
    const isFirst = this.#failingSinceMs === undefined;
    this.#failingSinceMs ??= sinceMs;
    return isFirst;
  }
}

export function codeOf(error: Error): string {
  return error instanceof AgentError ? error.code : 'internal-error';
}
