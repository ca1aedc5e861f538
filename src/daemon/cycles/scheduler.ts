import type { Schedule } from './schedule.ts';

/** Time after which another cycle begins if a reboot was requested and the machine still runs. */
const REBOOT_PATIENCE_MS = 5 * 60_000;
/** The pause after a cycle that did not settle. It doubles with each in a row, since each may write something. */
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 60 * 60_000;
const AT_ONCE_MS = Number.NEGATIVE_INFINITY;
const NEVER_MS = Number.POSITIVE_INFINITY;
/** The clock was set if a sleep ends this much too late. */
const CLOCK_SET_MS = 60_000;

/**
 * `settle`: complete or undo an interrupted update; `look`: recover, and ask the service; `reload`: read the
 * configuration.
 */
export interface NextTask {
  readonly what: 'recover' | 'check' | 'reload';
  /** Wall clock, milliseconds since the epoch. */
  readonly atMs: number;
}

/**
 * How a round ended: `settled` and `looked` are successes; `failed` left nothing half done, `unsettled` did;
 * `rebooting` asked for a reboot.
 */
export type CycleResult = 'settled' | 'looked' | 'failed' | 'unsettled' | 'rebooting';

/** The looks at the service. Times are of the wall clock, in milliseconds since the epoch. */
export interface CheckStats {
  readonly nextAtMs: number;
  /** Time of the last successful check since the start. */
  readonly lastSuccessAtMs: number | undefined;
  /** The number of checks that have failed since then, because of the service or its offer. */
  readonly consecutiveFailures: number;
  /** The time of the next attempt to finish interrupted work. */
  readonly retryAtMs?: number | undefined;
}

/** The times that the configuration sets. */
export interface ScheduleSettings {
  readonly schedule: Schedule;
  /** The time of the first look after a start, and after the clock was set forward. */
  readonly turn: Schedule;
  /** The least time between looks that messages ask for. */
  readonly wakeLimitMs: number;
}

/** Decides the daemon's next task from past events. It has no clock and does not wait. */
export class Scheduler {
  readonly #wakes = new WakeRateLimit();
  #times: ScheduleSettings;
  /** The number of cycles in a row that did not settle. */
  #unsettled = 0;
  #isBegun = false;
  #isReloadDue = false;
  #scheduledMs: number;
  /** The time of the check that a message requested. */
  #wakeMs = NEVER_MS;
  /** The time of a round for something that waits for a window or a hook. */
  #againMs = NEVER_MS;
  #lastCheckMs: number | undefined;
  #failedChecks = 0;
  /** If set, the next round is at this time, whatever the schedule and messages say. */
  #roundMs: number | undefined;
  /** True if that round is to finish interrupted work. It is a check only if one is due by then. */
  #isHalfDone = false;

  constructor(firstLookAtMs: number, times: ScheduleSettings) {
    this.#scheduledMs = firstLookAtMs;
    this.#times = times;
  }

  get next(): NextTask {
    if (!this.#isBegun) return { what: 'recover', atMs: AT_ONCE_MS };
    if (this.#isReloadDue) return { what: 'reload', atMs: AT_ONCE_MS };
    const checkMs = Math.min(this.checkAtMs, this.#againMs);
    if (this.#roundMs === undefined) return { what: 'check', atMs: checkMs };
    return { what: this.#isHalfDone && checkMs > this.#roundMs ? 'recover' : 'check', atMs: this.#roundMs };
  }

  /** The time of the next check by the schedule or a message. */
  get checkAtMs(): number {
    return Math.min(this.#scheduledMs, this.#wakeMs);
  }

  /** Checks by the schedule and by messages. Manual checks do not count. */
  get looks(): CheckStats {
    return {
      nextAtMs: this.checkAtMs,
      lastSuccessAtMs: this.#lastCheckMs,
      consecutiveFailures: this.#failedChecks,
      retryAtMs: this.#isHalfDone ? this.#roundMs : undefined,
    };
  }

  askForReload(): void {
    this.#isReloadDue = true;
  }

  /** Uses these times from now on. The next check keeps its time. */
  follow(times: ScheduleSettings): void {
    this.#times = times;
  }

  /** Notes that the configuration is being read. Whether or not it is valid, a check follows immediately. */
  beginReload(): void {
    this.#isReloadDue = false;
    this.#isHalfDone = false;
    this.#roundMs = AT_ONCE_MS;
  }

  /** Handles a message that requests a check. Returns its time, or undefined if the same check was requested before. */
  wake(nowMs: number): number | undefined {
    if (this.#wakeMs <= nowMs) return undefined;
    const dueMs = this.#wakes.nextMs(nowMs, this.#times.wakeLimitMs);
    if (dueMs === this.#wakeMs) return undefined;
    this.#wakeMs = dueMs;
    return dueMs;
  }

  /**
   * Called when the sleep is over. Returns whether to act now. False: the clock was set forward, perhaps on all
   * gateways of a fleet, so the scheduled check gets a new time.
   */
  wakeUp(nowMs: number): boolean {
    if (nowMs - this.#scheduledMs < CLOCK_SET_MS || this.next.atMs !== this.#scheduledMs) return true;
    this.#scheduledMs = this.#times.turn(nowMs);
    return false;
  }

  /** A cycle begins. A check also serves as the one that messages have requested. */
  beginRound(nowMs: number, what: NextTask['what'] = 'check'): void {
    this.#isBegun = true;
    if (what !== 'check') return;
    if (this.#wakeMs <= nowMs) this.#wakeMs = NEVER_MS;
    this.#againMs = NEVER_MS;
  }

  /** Requests a cycle at this time, independently of the schedule. Any earlier cycle cancels that. */
  retryAt(atMs: number): void {
    this.#againMs = atMs;
  }

  /** `isHalfDone`: something is half done, though this cycle succeeded. */
  endRound(how: CycleResult, nowMs: number, isHalfDone = false): void {
    this.#isHalfDone = how === 'unsettled' || isHalfDone;
    if (this.#isHalfDone) {
      this.#roundMs = nowMs + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#unsettled);
      this.#unsettled += 1;
      if (how === 'unsettled') return;
    } else {
      if (how !== 'failed') this.#unsettled = 0;
      this.#roundMs = how === 'rebooting' ? nowMs + REBOOT_PATIENCE_MS : undefined;
    }
    if (how === 'looked' || how === 'failed') this.#scheduledMs = this.#times.schedule(nowMs);
    if (how === 'failed') this.#failedChecks += 1;
    if (how !== 'looked') return;
    this.#lastCheckMs = nowMs;
    this.#failedChecks = 0;
  }
}

/** The times of checks that messages request: immediately, but never two within the limit. No request is lost. */
export class WakeRateLimit {
  #dueMs = Number.NEGATIVE_INFINITY;

  /**
   * Returns the time of the check requested now, or of an earlier request's check that is still ahead. It is never
   * later than the limit, even if the clock was set.
   */
  nextMs(nowMs: number, limitMs: number): number {
    if (nowMs >= this.#dueMs) this.#dueMs = Math.max(nowMs, this.#dueMs + limitMs);
    this.#dueMs = Math.min(this.#dueMs, nowMs + limitMs);
    return this.#dueMs;
  }
}
