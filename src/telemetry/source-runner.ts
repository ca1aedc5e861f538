import type { SourceFigures } from '../control/telemetry-protocol.ts';
import { abortable } from '../system/abortable.ts';
import { AgentError, describeError } from '../system/errors.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { backoffMs } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';
import { TelemetryError } from './errors.ts';
import { BoundedIntake } from './intake.ts';
import { ReadingPace } from './sensors/reading-pace.ts';
import type { RunnerDetails } from './sensors/sensor-report.ts';
import type { TelemetrySettings } from './settings.ts';
import type { PushedSource, Reading, Source } from './sources/source.ts';

export interface SourceRunnerDeps {
  /** The name for a person. */
  readonly name: string;
  readonly source: Source;
  readonly everyMs: number;
  readonly timeoutMs: number;
  /** A source that sends by itself counts as failed after so much silence; undefined: it may be silent. */
  readonly silenceMs?: number | undefined;
  /** The bounds for a source that sends by itself. */
  readonly rate: TelemetrySettings['rate'];
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  readonly onReading: OnReading;
}

/** Takes a reading, and calls `onDrop` for each part that is not used. An error that it throws concerns this reading only. */
export type OnReading = (reading: Reading, onDrop: (why: string) => void) => void;

const restart: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  firstDelayMs: 1_000,
  maxDelayMs: 60_000,
  maxRetryAfterMs: 0,
};

const DROPS_LOGGED_EVERY_MS = 10 * 60_000;

/**
 * Runs one source as long as the agent runs: reads it at its interval, or begins it again when it ends. Its failures
 * harm no other source.
 */
export class SourceRunner {
  readonly #deps: SourceRunnerDeps;
  #readings = 0;
  #readMs: number | undefined;
  #failures = 0;
  #failuresInARow = 0;
  #dropped = 0;
  #lastDrop: string | undefined;
  #dropLoggedMs = Number.NEGATIVE_INFINITY;
  #lastError: string | undefined;
  #lastErrorCode: string | undefined;
  #failingSinceMs = 0;
  #lastReading: Reading;
  readonly #pace = new ReadingPace();
  /** A reading that has not returned yet, although its time was up. */
  #hanging: Promise<void> | undefined;

  constructor(deps: SourceRunnerDeps) {
    this.#deps = deps;
  }

  get figures(): SourceFigures {
    return {
      name: this.#deps.name,
      readings: this.#readings,
      failures: this.#failures,
      lastReadingAgeMs: this.#readMs === undefined ? undefined : this.#deps.clock.monotonicMs() - this.#readMs,
      dropped: this.#dropped,
      lastDrop: this.#lastDrop,
      lastError: this.#lastError,
    };
  }

  get source(): Source {
    return this.#deps.source;
  }

  /** What a person who asks about this source is told. */
  get details(): SourceFigures & RunnerDetails {
    const nowMs = this.#deps.clock.monotonicMs();
    const isFailing = this.#lastError !== undefined;
    return {
      ...this.figures,
      lastReading: this.#lastReading,
      perMinute: this.#pace.perMinute(nowMs),
      lastErrorCode: isFailing ? this.#lastErrorCode : undefined,
      failingForMs: isFailing ? Math.round(nowMs - this.#failingSinceMs) : undefined,
    };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { source, everyMs, clock, random } = this.#deps;
    await clock.sleep(random() * Math.min(everyMs, 1_000), signal);
    let dueMs = clock.monotonicMs();
    while (!signal.aborted) {
      await this.once(signal);
      dueMs = Math.max(dueMs + everyMs, clock.monotonicMs());
      const pauseMs =
        source.kind === 'polled'
          ? Math.max(0, dueMs - clock.monotonicMs())
          : backoffMs(restart, Math.max(1, this.#failuresInARow), random);
      await clock.sleep(pauseMs, signal);
    }
  }

  /** Takes one reading, or runs a source that sends by itself once. */
  async once(signal: AbortSignal): Promise<void> {
    const { source } = this.#deps;
    try {
      if (source.kind === 'pushed') await this.#listen(source, signal);
      else this.#take(await this.#readInTime(async (inTime) => source.read(inTime), signal));
    } catch (error) {
      signal.throwIfAborted();
      this.#fail(error);
    }
  }

  async #listen(source: PushedSource, signal: AbortSignal): Promise<void> {
    const { name, silenceMs } = this.#deps;
    const silent = new AbortController();
    const why = new TelemetryError('source-timeout', `${name}: nothing came for ${silenceMs} ms`);
    const timer = silenceMs === undefined ? undefined : setTimeout(() => silent.abort(why), silenceMs);
    const ending = AbortSignal.any([signal, silent.signal]);
    const heard = {
      onReading: (reading: Reading): void => {
        timer?.refresh();
        this.#take(reading);
      },
      onDrop: (drop: string): void => {
        timer?.refresh();
        this.#drop(drop);
      },
    };
    try {
      await source.run(new BoundedIntake({ ...this.#deps, ...heard, signal: ending }), ending);
    } finally {
      clearTimeout(timer);
    }
  }

  async #readInTime(read: (signal: AbortSignal) => Promise<Reading>, signal: AbortSignal): Promise<Reading> {
    const { name, timeoutMs } = this.#deps;
    if (this.#hanging !== undefined)
      throw new TelemetryError('source-timeout', `${name}: still waits for the last reading`);
    const tooLate = new TelemetryError('source-timeout', `${name}: no reading within ${timeoutMs} ms`);
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(tooLate), timeoutMs);
    const reading = read(AbortSignal.any([signal, late.signal]));
    const over = (): void => {
      this.#hanging = undefined;
    };
    this.#hanging = reading.then(over, over);
    try {
      return await abortable(reading, late.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  #take(reading: Reading): void {
    const { log, name, onReading, clock } = this.#deps;
    if (this.#lastError !== undefined) log.info({ source: name }, 'the source works again');
    this.#readings += 1;
    this.#readMs = clock.monotonicMs();
    this.#lastReading = reading;
    this.#pace.note(this.#readMs);
    this.#failuresInARow = 0;
    this.#lastError = undefined;
    try {
      onReading(reading, (why) => this.#drop(why));
    } catch (error) {
      this.#drop(describeError(error));
    }
  }

  /** Counts a reading that is not used. Logs that only now and then. */
  #drop(why: string): void {
    const { log, name, clock } = this.#deps;
    this.#dropped += 1;
    this.#lastDrop = why;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#dropLoggedMs < DROPS_LOGGED_EVERY_MS) return;
    this.#dropLoggedMs = nowMs;
    log.warn({ source: name, dropped: this.#dropped }, `something of this source was dropped: ${why}`);
  }

  #fail(error: unknown): void {
    const { log, name, clock } = this.#deps;
    const code = error instanceof AgentError ? error.code : 'internal-error';
    this.#failures += 1;
    this.#failuresInARow += 1;
    if (this.#lastError === undefined) {
      log.warn({ source: name, code }, describeError(error));
      this.#failingSinceMs = clock.monotonicMs();
    }
    this.#lastError = describeError(error);
    this.#lastErrorCode = code;
  }
}
