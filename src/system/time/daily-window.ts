import type { Clock } from './clock.ts';
import { followTimeZone } from './time-zone.ts';
import { isPlausible } from './wall-clock.ts';

/** A part of the day in minutes of local time. It crosses midnight if `fromMinute` is the larger one. */
export interface DailyWindow {
  readonly fromMinute: number;
  readonly toMinute: number;
}

export function isWithin({ fromMinute, toMinute }: DailyWindow, minute: number): boolean {
  if (fromMinute <= toMinute) return minute >= fromMinute && minute < toMinute;
  return minute >= fromMinute || minute < toMinute;
}

/** The length of a window. */
export function minutesOf({ fromMinute, toMinute }: DailyWindow): number {
  return toMinute > fromMinute ? toMinute - fromMinute : toMinute - fromMinute + 24 * 60;
}

/** `02:00` */
export function timeOfDay(minute: number): string {
  const hours = String(Math.floor(minute / 60)).padStart(2, '0');
  return `${hours}:${String(minute % 60).padStart(2, '0')}`;
}

/** Returns the minutes since local midnight, or undefined if the clock is not set. */
export function minuteOfDay(clock: Pick<Clock, 'nowMs'>): number | undefined {
  const nowMs = clock.nowMs();
  if (!isPlausible(nowMs)) return undefined;
  followTimeZone();
  const now = new Date(nowMs);
  return now.getHours() * 60 + now.getMinutes();
}

/** The next time when the local clock shows this minute, in milliseconds since the epoch. */
export function nextMinuteMs(minute: number, nowMs: number): number {
  const time = new Date(nowMs);
  time.setHours(0, minute, 0, 0);
  if (time.getTime() <= nowMs) time.setDate(time.getDate() + 1);
  return time.getTime();
}
