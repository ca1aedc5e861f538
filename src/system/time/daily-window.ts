import type { Clock } from './clock.ts';
import { isPlausible } from './wall-clock.ts';

/** In minutes of the local day; crosses midnight where `fromMinute` is the larger. */
export interface DailyWindow {
  readonly fromMinute: number;
  readonly toMinute: number;
}

export function isWithin({ fromMinute, toMinute }: DailyWindow, minute: number): boolean {
  if (fromMinute <= toMinute) return minute >= fromMinute && minute < toMinute;
  return minute >= fromMinute || minute < toMinute;
}

/** How long it is. */
export function minutesOf({ fromMinute, toMinute }: DailyWindow): number {
  return toMinute > fromMinute ? toMinute - fromMinute : toMinute - fromMinute + 24 * 60;
}

/** `02:00` */
export function timeOfDay(minute: number): string {
  const hours = String(Math.floor(minute / 60)).padStart(2, '0');
  return `${hours}:${String(minute % 60).padStart(2, '0')}`;
}

/** Minutes since local midnight; undefined: the clock is not set. */
export function minuteOfDay(clock: Pick<Clock, 'nowMs'>): number | undefined {
  const nowMs = clock.nowMs();
  if (!isPlausible(nowMs)) return undefined;
  const now = new Date(nowMs);
  return now.getHours() * 60 + now.getMinutes();
}

/** When the local clock shows this minute next, milliseconds since the epoch. */
export function nextMinuteMs(minute: number, nowMs: number): number {
  const time = new Date(nowMs);
  time.setHours(0, minute, 0, 0);
  if (time.getTime() <= nowMs) time.setDate(time.getDate() + 1);
  return time.getTime();
}
