import { createHash } from 'node:crypto';

import type { Clock } from '../../system/time/clock.ts';
import type { NextTime } from '../../system/time/cron.ts';
import { minutesOf } from '../../system/time/daily-window.ts';
import { followTimeZone } from '../../system/time/time-zone.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { DaemonError } from '../errors.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** The time of the next look at the service: wall clock, milliseconds since the epoch. */
export type Schedule = (nowMs: number) => number;

/**
 * A schedule from a cron expression. Each gateway has a constant offset within the splay, which spreads a fleet evenly.
 */
export async function cronSchedule(expression: string, splayMs: number, serialNumber: string): Promise<Schedule> {
  const { cronTimes, isCronExpression } = await import('../../system/time/cron.ts');
  if (!isCronExpression(expression)) {
    throw new DaemonError('schedule-invalid', `update.schedule: "${expression}" is not a cron expression`);
  }
  return offsetSchedule(cronTimes(expression), splayOffsetMs(serialNumber, splayMs));
}

/** The times of one gateway: the times of its fleet plus its offset. */
export function offsetSchedule(next: NextTime, offsetMs: number): Schedule {
  return (nowMs) => next(nowMs - offsetMs) + offsetMs;
}

/** An offset with 0 ≤ offset < splay, derived from the serial number. */
export function splayOffsetMs(serialNumber: string, splayMs: number): number {
  const spread = createHash('sha256').update(serialNumber).digest().readUInt32BE(0);
  return Math.floor((spread / 0x1_0000_0000) * splayMs);
}

/** Distinguishes the times of a gateway from its fleet's. */
export interface Splay {
  readonly serialNumber: string;
  readonly splayMs: number;
}

/**
 * The first look after a start, or after the clock was set. A fleet then neither looks all at once after a blackout nor
 * waits for a rare time of the schedule.
 */
export function splayedStartMs(nowMs: number, schedule: Schedule, { serialNumber, splayMs }: Splay): number {
  const scheduledMs = schedule(nowMs);
  return scheduledMs - nowMs <= splayMs ? scheduledMs : nowMs + splayOffsetMs(serialNumber, splayMs);
}

const MAX_FIRST_SPLAY_MS = 60_000;

/** The first check of a new gateway. It is soon, since an operator may be waiting for it. */
export function firstTurnMs(nowMs: number, { serialNumber, splayMs }: Splay): number {
  return nowMs + splayOffsetMs(serialNumber, Math.min(splayMs, MAX_FIRST_SPLAY_MS));
}

const LONGEST_NAP_MS = 5 * 60_000;
/** The same while the clock is not set: the check that failed because of that is then soon repeated. */
const LONGEST_UNSET_NAP_MS = 60_000;

/**
 * Sleeps until the wall clock shows the time, or until the time zone changes, by which the time may have been computed.
 * It sleeps in naps, so that it notices either.
 */
export async function sleepUntil(
  timeMs: number,
  clock: Clock,
  signal: AbortSignal,
  zone: () => number = followTimeZone,
): Promise<void> {
  const naps = new SleepIntervals(timeMs, clock);
  const before = zone();
  for (let ms = naps.nextMs(clock); ms > 0 && zone() === before; ms = naps.nextMs(clock)) await clock.sleep(ms, signal);
}

/** The lengths of the naps until a time. */
export class SleepIntervals {
  readonly #timeMs: number;
  /** The end by the monotonic clock. */
  readonly #endMs: number;

  constructor(timeMs: number, clock: Instant) {
    this.#timeMs = timeMs;
    this.#endMs = clock.monotonicMs() + Math.max(0, timeMs - clock.nowMs());
  }

  /** The next nap; 0: the time has come. Naps end at multiples of their longest length, with other ticks (tick.ts). */
  nextMs(clock: Instant): number {
    const nowMs = clock.nowMs();
    const leftMs = Math.min(this.#timeMs - nowMs, this.#endMs - clock.monotonicMs());
    const longestMs = isPlausible(nowMs) ? LONGEST_NAP_MS : LONGEST_UNSET_NAP_MS;
    return Math.max(0, Math.min(leftMs, longestMs - (clock.monotonicMs() % longestMs)));
  }
}

type Instant = Pick<Clock, 'nowMs' | 'monotonicMs'>;

/** Gateways of a fleet spread their reboots over the first half of their window. */
export function rebootSpreadMs({ config, serialNumber }: Pick<Wiring, 'config' | 'serialNumber'>): number {
  const { splayMs, rebootWindow } = config.update;
  const windowMs = rebootWindow === undefined ? 0 : minutesOf(rebootWindow) * 60_000;
  return splayOffsetMs(serialNumber, Math.min(splayMs, windowMs / 2));
}
