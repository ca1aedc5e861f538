import type { Schedule } from './schedule.ts';
import { SettlePause } from './settle-pause.ts';
import { WakeLimit } from './wake-limit.ts';

/** After a reboot was asked for: if the machine still runs then, the round is made again. */
const REBOOT_PATIENCE_MS = 5 * 60_000;
const AT_ONCE_MS = Number.NEGATIVE_INFINITY;
const NEVER_MS = Number.POSITIVE_INFINITY;
/** A sleep that ends so late ended because the clock was set. */
const CLOCK_SET_MS = 60_000;

/** `settle`: finish or undo what was left half done; `look`: that, and ask the service; `reload`: read the configuration. */
export interface Next {
  readonly what: 'settle' | 'look' | 'reload';
  /** Wall clock, milliseconds since the epoch. */
  readonly atMs: number;
}

/**
 * How a round ended: `settled` and `looked` well, `failed` without anything left half done, `unsettled` with it,
 * `rebooting` in a reboot that was asked for.
 */
export type RoundEnd = 'settled' | 'looked' | 'failed' | 'unsettled' | 'rebooting';

/** How the daemon looks at the service. Times are of the wall clock, in milliseconds since the epoch. */
export interface Looks {
  readonly nextAtMs: number;
  /** The last that ended well; undefined: none since the start. */
  readonly lastAtMs: number | undefined;
  /** So many looks have failed since then, because of the service or of what it offered. */
  readonly failedInARow: number;
}

/** Of the configuration. */
export interface Times {
  readonly schedule: Schedule;
  /** When it looks after a start, and after its clock was set forward. */
  readonly turn: Schedule;
  /** Looks that messages ask for are so far apart. */
  readonly wakeLimitMs: number;
}

/** What the daemon does next, from what happened. It knows no clock and waits for nothing. */
export class Agenda {
  readonly #wakes = new WakeLimit();
  readonly #pauses = new SettlePause();
  #times: Times;
  #isBegun = false;
  #isReloadDue = false;
  #scheduledMs: number;
  /** Of the look that a message asked for. */
  #wakeMs = NEVER_MS;
  /** A round is made then for what waits for a window, or for a hook. */
  #againMs = NEVER_MS;
  #lastLookMs: number | undefined;
  #failedLooks = 0;
  /** Set: the next round comes then, whatever the schedule and messages say. */
  #roundMs: number | undefined;

  constructor(firstLookAtMs: number, times: Times) {
    this.#scheduledMs = firstLookAtMs;
    this.#times = times;
  }

  get next(): Next {
    if (!this.#isBegun) return { what: 'settle', atMs: AT_ONCE_MS };
    if (this.#isReloadDue) return { what: 'reload', atMs: AT_ONCE_MS };
    return { what: 'look', atMs: this.#roundMs ?? Math.min(this.lookAtMs, this.#againMs) };
  }

  /** When the schedule, or a message, wants the next look. */
  get lookAtMs(): number {
    return Math.min(this.#scheduledMs, this.#wakeMs);
  }

  /** Of the schedule and of messages; what a person asks for is not counted. */
  get looks(): Looks {
    return { nextAtMs: this.lookAtMs, lastAtMs: this.#lastLookMs, failedInARow: this.#failedLooks };
  }

  askForReload(): void {
    this.#isReloadDue = true;
  }

  /** From now on; the look that is due stays so. */
  follow(times: Times): void {
    this.#times = times;
  }

  /** The configuration is read now. Whether it can be used or not, a look follows at once. */
  beginReload(): void {
    this.#isReloadDue = false;
    this.#roundMs = AT_ONCE_MS;
  }

  /** A message asks for a look. Returns when it is due; undefined: the same look was asked for before. */
  wake(nowMs: number): number | undefined {
    if (this.#wakeMs <= nowMs) return undefined;
    const dueMs = this.#wakes.nextMs(nowMs, this.#times.wakeLimitMs);
    if (dueMs === this.#wakeMs) return undefined;
    this.#wakeMs = dueMs;
    return dueMs;
  }

  /**
   * A sleep until what is next is over. False: the clock was set forward, perhaps on all gateways of a fleet; the schedule's
   * look comes in its turn.
   */
  wakeUp(nowMs: number): boolean {
    if (nowMs - this.#scheduledMs < CLOCK_SET_MS || this.next.atMs !== this.#scheduledMs) return true;
    this.#scheduledMs = this.#times.turn(nowMs);
    return false;
  }

  /** A round begins now, and is the look that messages asked for until now. */
  beginRound(nowMs: number): void {
    this.#isBegun = true;
    if (this.#wakeMs <= nowMs) this.#wakeMs = NEVER_MS;
    this.#againMs = NEVER_MS;
  }

  /** A round is made then, whatever the schedule says; whatever round comes first takes that back. */
  comeAgain(atMs: number): void {
    this.#againMs = atMs;
  }

  endRound(how: RoundEnd, nowMs: number): void {
    if (how === 'unsettled') {
      this.#roundMs = nowMs + this.#pauses.nextMs();
      return;
    }
    if (how !== 'failed') this.#pauses.end();
    this.#roundMs = how === 'rebooting' ? nowMs + REBOOT_PATIENCE_MS : undefined;
    if (how === 'looked' || how === 'failed') this.#scheduledMs = this.#times.schedule(nowMs);
    if (how === 'failed') this.#failedLooks += 1;
    if (how !== 'looked') return;
    this.#lastLookMs = nowMs;
    this.#failedLooks = 0;
  }
}
