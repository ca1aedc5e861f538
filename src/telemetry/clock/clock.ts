import { access } from 'node:fs/promises';

import { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Clock } from '../../system/time/clock.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import type { PointTime } from '../point.ts';

/**
 * `assumed`: nothing on this machine tells whether the clock was set, or it takes too long; it looks right. `service`: it
 * does not tell either, and the time is the one that the service's replies show.
 */
export type ClockState = 'unset' | 'assumed' | 'service' | 'set';

/** The service's clock, and when it showed that, on ours. */
export interface ServiceTime {
  readonly atMs: number;
  readonly monotonicMs: number;
}

/** What the machine says about its wall clock. `unknown`: nobody keeps it, as far as one can see. */
export type Synchronization = 'synchronized' | 'not-yet' | 'unknown';

export type ProbeSynchronization = (signal: AbortSignal) => Promise<Synchronization>;

export interface WallClockOptions {
  readonly clock: Clock;
  readonly sinceBootMs: () => number;
  readonly probe: ProbeSynchronization;
  readonly log: Log;
  /** Called with the wall clock at the start of this boot, when it is known and when it is known better. */
  readonly onSet: (startedAtMs: number) => void;
}

/** Then twice as long each time: to look means to start a program. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = { unset: 60_000, assumed: 3_600_000, service: 3_600_000 } as const;
/** A clock that looks right is believed after this, even if no time server was reached. */
const PATIENCE_MS = 15 * 60_000;
/** A reply shows whole seconds, and is on its way for a while. */
const AGREES_MS = 5_000;

/** Whether the wall clock can be believed. A board without a battery starts with a time that looks right and is not. */
export class WallClock {
  readonly #options: WallClockOptions;
  readonly #beganMs: number;
  #state: ClockState = 'unset';
  #heard: ServiceTime | undefined;
  #wasProbed = false;
  /** By the clock that is believed; of interest while that is not the machine's. */
  #startedAtMs = 0;

  constructor(options: WallClockOptions) {
    this.#options = options;
    this.#beganMs = options.clock.monotonicMs();
  }

  get state(): ClockState {
    return this.#state;
  }

  /** The time of what happens now. */
  now(): PointTime {
    const { clock, sinceBootMs } = this.#options;
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

  /** What the service shows is believed for as long as the machine does not know better. */
  hear(time: ServiceTime): void {
    if (!isPlausible(time.atMs)) return;
    this.#heard = time;
    if (this.#wasProbed && this.#state !== 'set') this.#follow(time);
  }

  /** Looks again and again until the clock is set. */
  async run(signal: AbortSignal): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs *= 2) {
      await this.look(signal);
      const { state } = this;
      if (state === 'set') return;
      pauseMs = Math.min(pauseMs, LONGEST_PAUSE_MS[state]);
      await this.#options.clock.sleep(pauseMs, signal);
    }
  }

  async look(signal: AbortSignal): Promise<void> {
    const { clock, probe } = this.#options;
    const found = isPlausible(clock.nowMs()) ? await probe(signal) : 'not-yet';
    this.#wasProbed = true;
    if (found === 'synchronized') this.#believe('set', this.#startByMachine());
    else if (this.#heard !== undefined) this.#follow(this.#heard);
    else if (this.#state === 'unset' && this.#mayAssume(found)) this.#believe('assumed', this.#startByMachine());
  }

  #mayAssume(found: Synchronization): boolean {
    const { clock } = this.#options;
    if (!isPlausible(clock.nowMs())) return false;
    return found === 'unknown' || clock.monotonicMs() - this.#beganMs > PATIENCE_MS;
  }

  /** Where the machine's clock agrees with the service's, its is taken: it knows more than seconds. */
  #follow({ atMs, monotonicMs }: ServiceTime): void {
    const { clock, sinceBootMs } = this.#options;
    const theirMs = atMs + clock.monotonicMs() - monotonicMs;
    const agrees = Math.abs(clock.nowMs() - theirMs) <= AGREES_MS;
    if (agrees && this.#state === 'assumed') return;
    const startedAtMs = agrees ? this.#startByMachine() : theirMs - sinceBootMs();
    if (this.#state === 'service' && Math.abs(startedAtMs - this.#startedAtMs) <= AGREES_MS) return;
    this.#believe('service', startedAtMs);
  }

  #startByMachine(): number {
    const { clock, sinceBootMs } = this.#options;
    return clock.nowMs() - sinceBootMs();
  }

  #believe(state: 'assumed' | 'service' | 'set', startedAtMs: number): void {
    const { log, onSet } = this.#options;
    this.#state = state;
    this.#startedAtMs = startedAtMs;
    log.info({ state }, believed[state]);
    onSet(startedAtMs);
  }
}

const believed = {
  assumed: 'the clock is taken as it is: nothing sets it',
  service: 'nothing sets the clock: the time is taken from the service',
  set: 'the clock is set',
} as const;

/** systemd-timesyncd makes this file (systemd-timesyncd.service(8)); for others, like chrony, systemd-timedated knows. */
export function probeSynchronization(timesyncPath = '/run/systemd/timesync'): ProbeSynchronization {
  return async (signal) => {
    if (await exists(`${timesyncPath}/synchronized`)) return 'synchronized';
    try {
      const command = ['timedatectl', 'show', '--property=NTPSynchronized', '--value'] as const;
      const { exitCode, stdout } = await runProgram([...command], { timeoutMs: 5_000, maxOutputBytes: 4_096 }, signal);
      if (exitCode === 0 && stdout.trim() === 'yes') return 'synchronized';
      if (exitCode === 0 && stdout.trim() === 'no') return 'not-yet';
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
    }
    return (await exists(timesyncPath)) ? 'not-yet' : 'unknown';
  };
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (error instanceof Error) return false;
    throw error;
  }
}
