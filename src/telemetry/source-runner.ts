import type { DropReason, SourceStats } from '../control/telemetry-protocol.ts';
import { describeError } from '../system/errors.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { backoffMs } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';
import { TokenBucket } from '../system/time/token-bucket.ts';
import { TelemetryError } from './errors.ts';
import type { OnDrop } from './measurement.ts';
import { sampleOf } from './reading-text.ts';
import type { RunnerDetails } from './sensors/sensor-report.ts';
import { codeOf, SourceProgress } from './sensors/source-progress.ts';
import type { PushedSource, Reading, ReadingSink, Source } from './sources/source.ts';

export interface SourceRunnerDeps {
  /** The name for operators. */
  readonly name: string;
  readonly source: Source;
  /** The interval of a polled source. */
  readonly everyMs?: number | undefined;
  /** The time that a reading of a polled source may take. */
  readonly timeoutMs: number;
  /** A push source fails after this time of silence. Omitted if it may be silent. */
  readonly idleTimeoutMs?: number | undefined;
  /** The bounds for a push source. */
  readonly rate: { readonly pointsPerSecond: number; readonly bytesPerSecond: number };
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  readonly onReading: OnReading;
}

/**
 * Takes a reading, and calls `onDrop` for each part that is not used. Returns true if something of it is used. An error
 * that it throws concerns this reading only. `series`: empty, or the topic of a message.
 */
export type OnReading = (reading: Reading, onDrop: OnDrop, series: string) => boolean;

const restart: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  firstDelayMs: 1_000,
  maxDelayMs: 60_000,
  maxRetryAfterMs: 0,
};

/** Sources do not all begin at the same time. */
const SPREAD_MS = 1_000;
/** The burst that is allowed after a silence, for example everything that a broker has retained. */
const POINTS_BURST_SECONDS = 5;
const BYTES_BURST_SECONDS = 1;
const DROPS_LOGGED_EVERY_MS = 10 * 60_000;

/**
 * Runs one source as long as the agent runs: reads it at its interval, or begins it again when it ends. Its failures
 * harm no other source.
 */
export class SourceRunner {
  readonly #deps: SourceRunnerDeps;
  readonly #progress: SourceProgress;
  #dropLoggedMs = Number.NEGATIVE_INFINITY;

  constructor(deps: SourceRunnerDeps) {
    this.#deps = deps;
    const { name, clock, source, everyMs = SPREAD_MS, timeoutMs } = deps;
    this.#progress = new SourceProgress(name, clock, source.kind === 'pushed' ? undefined : everyMs + timeoutMs);
  }

  get figures(): SourceStats {
    return this.#progress.figures;
  }

  get source(): Source {
    return this.#deps.source;
  }

  /** The figures for `agent sensors`. */
  get details(): SourceStats & RunnerDetails {
    const { source } = this.#deps;
    const { notice, ...details } = this.#progress.details;
    return { ...details, notice: (source.kind === 'polled' ? source.notice : undefined) ?? notice };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { source, everyMs = SPREAD_MS, clock, random } = this.#deps;
    await clock.sleep(random() * Math.min(everyMs, SPREAD_MS), signal);
    let dueMs = clock.monotonicMs();
    while (!signal.aborted) {
      await this.once(signal);
      dueMs = Math.max(dueMs + everyMs, clock.monotonicMs());
      const pauseMs =
        source.kind === 'polled'
          ? Math.max(0, dueMs - clock.monotonicMs())
          : backoffMs(restart, Math.max(1, this.#progress.failuresInARow), random);
      await clock.sleep(pauseMs, signal);
    }
  }

  /** Takes one reading, or runs a push source once. */
  async once(signal: AbortSignal): Promise<void> {
    const { source } = this.#deps;
    try {
      if (source.kind === 'pushed') await this.#listen(source, signal);
      else this.#take(await source.read(signal));
    } catch (error) {
      signal.throwIfAborted();
      this.#fail(error);
    }
  }

  async #listen(source: PushedSource, signal: AbortSignal): Promise<void> {
    const { name, idleTimeoutMs } = this.#deps;
    const silent = new AbortController();
    const why = new TelemetryError('source-timeout', `${name}: nothing came for ${idleTimeoutMs} ms`);
    const timer = idleTimeoutMs === undefined ? undefined : setTimeout(() => silent.abort(why), idleTimeoutMs);
    const ending = AbortSignal.any([signal, silent.signal]);
    try {
      await source.run(
        this.#sink(() => timer?.refresh(), ending),
        ending,
      );
    } finally {
      clearTimeout(timer);
    }
  }

  /** Guarantee `hostile-input`: bounds the readings of a push source. The signal ends every pause. */
  #sink(onArrival: () => void, signal: AbortSignal): ReadingSink {
    const { rate, clock } = this.#deps;
    const points = new TokenBucket(rate.pointsPerSecond, POINTS_BURST_SECONDS, clock);
    const bytes = new TokenBucket(rate.bytesPerSecond, BYTES_BURST_SECONDS, clock);
    const drop: ReadingSink['drop'] = (reason, why, count) => {
      if (reason !== 'empty') onArrival();
      this.drop(reason, why, count);
    };
    return {
      connected: () => this.#progress.connected(),
      take: (read, text = '', series = '') => {
        if (!points.admits()) return drop('too-fast', `more than ${rate.pointsPerSecond} a second`);
        try {
          const reading = read();
          if (reading === undefined && text === '') return drop('empty', 'empty messages');
          onArrival();
          if (reading !== undefined) this.#take(reading, series);
          else if (this.#progress.isReading) this.#progress.came();
          else this.drop('no-match', `the pattern matches nothing in ${sampleOf(text)}`);
        } catch (error) {
          if (!(error instanceof TelemetryError) || error.code !== 'value-invalid') throw error;
          drop('malformed', describeError(error));
        }
      },
      drop,
      rest: (count) => {
        const pauseMs = bytes.spend(count);
        // the source checks the signal afterwards
        return pauseMs === 0 ? undefined : clock.sleep(pauseMs, signal).catch(() => {});
      },
    };
  }

  #take(reading: Reading, series = ''): void {
    const { log, name, onReading } = this.#deps;
    const progress = this.#progress;
    const { dropped } = progress;
    let isUsed = false;
    try {
      isUsed = onReading(reading, (reason, why) => this.drop(reason, why), series);
    } catch (error) {
      this.drop('unusable', describeError(error));
    }
    progress.came();
    if (isUsed && progress.read(reading, progress.dropped === dropped)) {
      log.info({ source: name }, 'the source works again');
    }
  }

  /** Notes something that is not used. Logs that only now and then. */
  drop(reason: DropReason, why: string, count?: number): void {
    const { log, name, clock } = this.#deps;
    if (!this.#progress.drop(reason, why, count)) return;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#dropLoggedMs < DROPS_LOGGED_EVERY_MS) return;
    this.#dropLoggedMs = nowMs;
    const { dropped } = this.#progress;
    log.warn({ source: name, reason, dropped }, `something of this source was dropped: ${why}`);
  }

  #fail(thrown: unknown): void {
    const error = thrown instanceof Error ? thrown : new Error(describeError(thrown));
    const { log, name } = this.#deps;
    if (this.#progress.fail(error)) log.warn({ source: name, code: codeOf(error) }, describeError(error));
  }
}
