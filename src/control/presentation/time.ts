import { isPlausible } from '../../system/time/wall-clock.ts';

const withZone = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Parses a time in ISO 8601 with a time zone. Returns it in UTC with milliseconds, or undefined if the text is invalid.
 */
export function parseTime(text: string): string | undefined {
  const match = withZone.exec(text);
  const atMs = Date.parse(text);
  if (match === null || Number.isNaN(atMs)) return undefined;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (new Date(Date.UTC(year, month - 1, day)).getUTCDate() !== day) return undefined;
  return new Date(atMs).toISOString();
}

/** Returns the offset of local time from UTC in minutes at that moment. */
export type OffsetMinutes = (atMs: number) => number;

/** The time and the time zone of the reader. */
export interface When {
  readonly nowMs: number;
  readonly localOffset: OffsetMinutes;
}

export const systemOffset: OffsetMinutes = (atMs) => -new Date(atMs).getTimezoneOffset();

/** Returns the local time with the offset from UTC, or undefined if the text is invalid. */
function localTime(iso: string, offset: OffsetMinutes): string | undefined {
  const atMs = Date.parse(iso);
  const minutes = Number.isNaN(atMs) ? 0 : offset(atMs);
  const shifted = new Date(atMs + minutes * 60_000);
  if (Number.isNaN(shifted.getTime())) return undefined;
  const zone = `${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  return `${shifted.toISOString().replace('T', ' ').slice(0, -5)} ${minutes < 0 ? '-' : '+'}${zone}`;
}

function two(value: number): string {
  return String(Math.trunc(value)).padStart(2, '0');
}

/** `in 12 min`, `3 days ago`, `now`. */
export function formatRelativeTime(iso: string, nowMs: number): string | undefined {
  const atMs = Date.parse(iso);
  if (Number.isNaN(atMs)) return undefined;
  const awayMs = atMs - nowMs;
  if (formatDuration(Math.abs(awayMs)) === '0 s') return 'now';
  return awayMs > 0 ? `in ${formatDuration(rounded(awayMs))}` : `${formatDuration(-awayMs)} ago`;
}

/** Rounds a duration, so that 30 days are not shown as 29 a moment later. */
function rounded(ms: number): number {
  const unit = [dayMs, minuteMs].find((smallest) => ms >= leastOf(smallest)) ?? secondMs;
  return Math.round(ms / unit) * unit;
}

/** Returns the shortest duration that is shown in this unit instead of a finer one. */
function leastOf(unitMs: number): number {
  return unitMs === dayMs ? 2 * dayMs : hourMs;
}

/**
 * Returns a time as every view shows it: `2026-03-01 14:05 +01:00 (in 12 min)`, or in a log, where events follow each
 * other within a minute, `2026-03-01 14:05:09 +01:00`. Marks a time at which the gateway's clock was not set yet, unless
 * it is `given` by another clock. Returns an invalid text unchanged.
 */
export function formatTime(
  iso: string,
  { nowMs, localOffset }: When,
  style: 'relative' | 'log' | 'given' = 'relative',
): string {
  const text = localTime(iso, localOffset);
  if (text === undefined || style === 'given') return text ?? iso;
  const isUnset = isPlausible(nowMs) && !isPlausible(Date.parse(iso));
  if (style === 'log') return isUnset ? `${text} (clock not set)` : text;
  const away = isUnset ? 'clock not set' : formatRelativeTime(iso, nowMs);
  return `${text.replace(/:\d\d(?= [+-])/, '')}${away === undefined ? '' : ` (${away})`}`;
}

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** At most two units: `9 s`, `3 min 20 s`, `2 h 5 min`, `3 days`. */
export function formatDuration(ms: number): string {
  if (ms < minuteMs) return `${Math.floor(ms / secondMs)} s`;
  if (ms < hourMs) return twoUnits(ms, [minuteMs, 'min'], [secondMs, 's']);
  if (ms < 2 * dayMs) return twoUnits(ms, [hourMs, 'h'], [minuteMs, 'min']);
  return `${Math.floor(ms / dayMs)} days`;
}

type Unit = readonly [ms: number, name: string];

function twoUnits(ms: number, [large, largeName]: Unit, [small, smallName]: Unit): string {
  const rest = Math.floor((ms % large) / small);
  const first = `${Math.floor(ms / large)} ${largeName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}
