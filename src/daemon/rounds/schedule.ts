import { createHash } from 'node:crypto';

import type { Clock } from '../../system/time/clock.ts';
import { minutesOf } from '../../system/time/daily-window.ts';
import { DaemonError } from '../errors.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** When the next look at the service is due, wall clock, milliseconds since the epoch. */
export type Schedule = (nowMs: number) => number;

const MINUTE_MS = 60_000;
const LONGEST_LOOK_BACK_MS = 24 * 60 * MINUTE_MS;

/** From a cron expression; the splay is the same for one gateway each time and spreads a fleet evenly. */
export async function cronSchedule(expression: string, splayMs: number, serialNumber: string): Promise<Schedule> {
  const { cronTimes, isCronExpression } = await import('../../system/time/cron.ts');
  if (!isCronExpression(expression)) {
    throw new DaemonError('schedule-invalid', `update.schedule: "${expression}" is not a cron expression`);
  }
  const offsetMs = splayOffsetMs(serialNumber, splayMs);
  const times = cronTimes(expression);
  return (nowMs) => {
    const passedMs = passedMinutes(nowMs, offsetMs).find((timeMs) => times.includes(timeMs));
    return (passedMs ?? times.nextMs()) + offsetMs;
  };
}

/** The minutes whose look is still to come, because of the offset. */
function passedMinutes(nowMs: number, offsetMs: number): readonly number[] {
  const minute = Math.floor(nowMs / MINUTE_MS);
  const first = Math.floor((nowMs - Math.min(offsetMs, LONGEST_LOOK_BACK_MS)) / MINUTE_MS) + 1;
  return Array.from({ length: Math.max(0, minute - first + 1) }, (_, index) => (first + index) * MINUTE_MS);
}

/** 0 ≤ offset < splay, decided by the serial number. */
export function splayOffsetMs(serialNumber: string, splayMs: number): number {
  const spread = createHash('sha256').update(serialNumber).digest().readUInt32BE(0);
  return Math.floor((spread / 0x1_0000_0000) * splayMs);
}

const LONGEST_NAP_MS = 5 * 60_000;

/** Sleeps until the wall clock shows the time, in naps, so that a clock that is set meanwhile is noticed. */
export async function sleepUntil(timeMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  const longestMs = Math.max(0, timeMs - clock.nowMs());
  const startMs = clock.monotonicMs();
  for (;;) {
    const leftMs = Math.min(timeMs - clock.nowMs(), longestMs - (clock.monotonicMs() - startMs));
    if (leftMs <= 0) return;
    await clock.sleep(Math.min(leftMs, LONGEST_NAP_MS), signal);
  }
}

/** Gateways of a fleet reboot one after the other, but within the first half of their window. */
export function rebootSpreadMs({ config, serialNumber }: Pick<Wiring, 'config' | 'serialNumber'>): number {
  const { splayMs, rebootWindow } = config.update;
  const windowMs = rebootWindow === undefined ? 0 : minutesOf(rebootWindow) * 60_000;
  return splayOffsetMs(serialNumber, Math.min(splayMs, windowMs / 2));
}
