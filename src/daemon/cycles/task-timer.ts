import type { Config } from '../../config/config.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { cronSchedule, firstTurnMs, rebootSpreadMs, sleepUntil, splayedStartMs } from './schedule.ts';
import { Scheduler } from './scheduler.ts';
import type { CycleResult, NextTask } from './scheduler.ts';

interface AlarmClockDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly liveness: Liveness;
}

/** Keeps to the agenda: sleeps until what is next is due, and wakes when something else has become next. */
export class TaskTimer {
  readonly #deps: AlarmClockDeps;
  #agenda: Scheduler | undefined;
  /** The bell, which is aborted when the agenda has changed: that ends a sleep. */
  #bell = new AbortController();

  constructor(deps: AlarmClockDeps) {
    this.#deps = deps;
  }

  get agenda(): Scheduler {
    if (this.#agenda === undefined) throw new Error('the timer reads its agenda before it exists');
    return this.#agenda;
  }

  /** Follows the schedule of a configuration from now on. */
  async follow({ update }: Config, { serialNumber, journal }: Wiring): Promise<void> {
    const { splayMs } = update;
    const schedule = await cronSchedule(update.schedule, splayMs, serialNumber);
    const spread = { serialNumber, splayMs };
    const turn = (nowMs: number): number =>
      journal.state.named === undefined ? firstTurnMs(nowMs, spread) : splayedStartMs(nowMs, schedule, spread);
    const times = { schedule, turn, wakeLimitMs: splayMs };
    this.#agenda ??= new Scheduler(turn(this.#deps.clock.nowMs()), times);
    this.#agenda.follow(times);
  }

  /** Resolves with the next task once it is due, or with undefined after an abort. */
  async due(signal: AbortSignal): Promise<NextTask['what'] | undefined> {
    while (!signal.aborted) {
      this.#bell = new AbortController();
      const { what, atMs } = this.agenda.next;
      if (await this.#sleepUntil(atMs, AbortSignal.any([signal, this.#bell.signal]))) return what;
    }
    return undefined;
  }

  /** Handles a message that requests a check. */
  wake(): void {
    const { clock, log } = this.#deps;
    const { atMs } = this.agenda.next;
    const dueMs = this.agenda.wake(clock.nowMs());
    if (dueMs === undefined) return; // the check was requested before
    log.info({ dueInMs: Math.round(dueMs - clock.nowMs()) }, 'update check requested over MQTT');
    if (this.agenda.next.atMs < atMs) this.#bell.abort();
  }

  /** Plans the next cycle after one with this result. */
  async endCycle(end: CycleResult, wiring: Wiring): Promise<void> {
    const { rebootWait, hookPause } = wiring.updater ?? {};
    const isHalfDone = await wiring.boards.isHalfWritten();
    const nowMs = this.#deps.clock.nowMs();
    this.agenda.endRound(end, nowMs, isHalfDone);
    if (rebootWait?.untilMs !== undefined) this.agenda.retryAt(rebootWait.untilMs + rebootSpreadMs(wiring));
    else if (hookPause !== undefined) this.agenda.retryAt(nowMs + hookPause.leftMs);
  }

  /** A client's operation left something half done: the next cycle comes soon. */
  retrySoon(): void {
    this.agenda.endRound('unsettled', this.#deps.clock.nowMs());
    this.#bell.abort();
  }

  askForReload(): void {
    this.agenda.askForReload();
    this.#bell.abort();
  }

  /** Sleeps until a time. False: the bell rang, or something else is next by now. */
  async #sleepUntil(untilMs: number, awake: AbortSignal): Promise<boolean> {
    const { clock, liveness } = this.#deps;
    const sleepMs = Math.max(0, untilMs - clock.nowMs());
    liveness.expectIdle(sleepMs);
    try {
      await sleepUntil(untilMs, clock, awake);
      return sleepMs === 0 || this.agenda.wakeUp(clock.nowMs());
    } catch (error) {
      if (!awake.aborted) throw error;
      return false;
    } finally {
      liveness.progress();
    }
  }
}

/**
 * True while the daemon makes progress: work must report from time to time, and a sleep states its duration. systemd's
 * watchdog is fed only then, not by a timer alone.
 */
export class Liveness {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #longestSilenceMs: number;
  #aliveUntilMs: number;

  constructor(clock: Pick<Clock, 'monotonicMs'>, longestSilenceMs: number) {
    this.#clock = clock;
    this.#longestSilenceMs = longestSilenceMs;
    this.#aliveUntilMs = clock.monotonicMs() + longestSilenceMs;
  }

  /** Notes progress. */
  progress(): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + this.#longestSilenceMs;
  }

  /** Announces that there will be no progress for this time. */
  expectIdle(ms: number): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + ms + this.#longestSilenceMs;
  }

  get isAlive(): boolean {
    return this.#clock.monotonicMs() < this.#aliveUntilMs;
  }
}
