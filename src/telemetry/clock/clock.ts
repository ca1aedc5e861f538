import { existsSync } from 'node:fs';

import type { ClockState } from '../../control/telemetry-protocol.ts';
import { AgentError, valueOrError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Clock } from '../../system/time/clock.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import type { PointTime } from '../point.ts';

/** The time that the service's clock showed, and when that was on our monotonic clock. */
export interface ServiceTime {
  readonly atMs: number;
  readonly monotonicMs: number;
}

/** The state of the machine's wall clock. `unknown`: nothing visible keeps the time. */
export type Synchronization = 'synchronized' | 'not-yet' | 'unknown';

export type ProbeSynchronization = (signal: AbortSignal) => Promise<Synchronization>;

export interface WallClockDeps {
  readonly clock: Clock;
  readonly sinceBootMs: () => number;
  readonly probe: ProbeSynchronization;
  /** Asks the service for its time if datapoints wait for that. Returns true if the service replied. */
  readonly requestTime: (signal: AbortSignal) => Promise<boolean>;
  readonly log: Log;
  /**
   * Called with the wall clock at the start of this boot, as soon as it is known, and again when it is known better.
   */
  readonly onSet: (startedAtMs: number) => void;
}

/** The pause then doubles each time, since each check starts a program. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = { unset: 60_000, assumed: 3_600_000, service: 3_600_000 } as const;
/** After this time a clock that looks right is believed if no time server was reached, and the service shows no time. */
const PATIENCE_MS = 15 * 60_000;
/** The tolerance for a reply, which shows whole seconds and was on its way for a while. */
const AGREES_MS = 5_000;

/**
 * Guarantee `clock`: decides whether the wall clock can be believed. A gateway without a battery for its clock starts
 * with a time that looks right and is not.
 */
export class WallClock {
  readonly #deps: WallClockDeps;
  readonly #beganMs: number;
  #state: ClockState = 'unset';
  #heard: ServiceTime | undefined;
  #wasProbed = false;
  /** The service replied to a request for its time. */
  #hasReplied = false;
  /** The start of this boot by the believed clock. Used while that is not the machine's clock. */
  #startedAtMs = 0;

  constructor(deps: WallClockDeps) {
    this.#deps = deps;
    this.#beganMs = deps.clock.monotonicMs();
  }

  get state(): ClockState {
    return this.#state;
  }

  /** The time of what happens now. */
  now(): PointTime {
    const { clock, sinceBootMs } = this.#deps;
    switch (this.#state) {
      case 'unset':
        return { kind: 'since-boot' };
      case 'service':
        return { kind: 'known', atMs: this.#startedAtMs + sinceBootMs() };
      case 'assumed':
      case 'set':
        return { kind: 'known', atMs: clock.nowMs() };
    }
  }

  /** Notes the time that the service's clock shows. It is believed until the machine knows better. */
  onServiceTime(time: ServiceTime): void {
    if (!isPlausible(time.atMs)) return;
    this.#heard = time;
    if (this.#wasProbed && this.#state !== 'set') this.#follow(time);
  }

  /** Looks repeatedly until the clock is set. */
  async run(signal: AbortSignal): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs *= 2) {
      await this.poll(signal);
      const { state } = this;
      if (state === 'set') return;
      pauseMs = Math.min(pauseMs, LONGEST_PAUSE_MS[state]);
      await this.#deps.clock.sleep(pauseMs, signal);
      if (state === 'unset' && (await this.#deps.requestTime(signal))) this.#hasReplied = true;
    }
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { clock, probe } = this.#deps;
    const found = isPlausible(clock.nowMs()) ? await probe(signal) : 'not-yet';
    this.#wasProbed = true;
    if (found === 'synchronized') this.#setState('set', this.#startByMachine());
    else if (this.#heard !== undefined) this.#follow(this.#heard);
    else if (this.#state === 'unset' && this.#mayAssume(found)) this.#setState('assumed', this.#startByMachine());
  }

  #mayAssume(found: Synchronization): boolean {
    const { clock } = this.#deps;
    if (!isPlausible(clock.nowMs())) return false;
    return found === 'unknown' || (this.#hasReplied && clock.monotonicMs() - this.#beganMs > PATIENCE_MS);
  }

  /**
   * Follows the service's clock. If the machine's clock agrees with it, the machine's is used, which has more than
   * seconds.
   */
  #follow({ atMs, monotonicMs }: ServiceTime): void {
    const { clock, sinceBootMs } = this.#deps;
    const theirMs = atMs + clock.monotonicMs() - monotonicMs;
    const agrees = Math.abs(clock.nowMs() - theirMs) <= AGREES_MS;
    if (agrees && this.#state === 'assumed') return;
    const startedAtMs = agrees ? this.#startByMachine() : theirMs - sinceBootMs();
    if (this.#state === 'service' && Math.abs(startedAtMs - this.#startedAtMs) <= AGREES_MS) return;
    this.#setState('service', startedAtMs);
  }

  #startByMachine(): number {
    const { clock, sinceBootMs } = this.#deps;
    return clock.nowMs() - sinceBootMs();
  }

  #setState(state: 'assumed' | 'service' | 'set', startedAtMs: number): void {
    const { log, onSet } = this.#deps;
    this.#state = state;
    this.#startedAtMs = startedAtMs;
    log.info({ state }, believed[state]);
    onSet(startedAtMs);
  }
}

const believed = {
  assumed: 'no time synchronization found: using the system clock as it is',
  service: 'no time synchronization found: using the time of the service',
  set: 'the clock is set',
} as const;

/**
 * systemd-timesyncd makes this file (systemd-timesyncd.service(8)). For others, such as chrony, systemd-timedated
 * has the state.
 */
export function probeSynchronization(timesyncPath = '/run/systemd/timesync'): ProbeSynchronization {
  return async (signal) => {
    if (existsSync(`${timesyncPath}/synchronized`)) return 'synchronized';
    const command = ['timedatectl', 'show', '--property=NTPSynchronized', '--value'] as const;
    const ran = await valueOrError(runProgram([...command], { timeoutMs: 5_000, maxOutputBytes: 4_096 }, signal));
    const answer = ran instanceof AgentError || ran.exitCode !== 0 ? '' : ran.stdout.trim();
    if (answer === 'yes') return 'synchronized';
    if (answer === 'no') return 'not-yet';
    return existsSync(timesyncPath) ? 'not-yet' : 'unknown';
  };
}
