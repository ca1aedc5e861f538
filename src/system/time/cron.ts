import { parse, validate } from 'node-cron';

/** True if node-cron accepts the text, which has five fields, or six with seconds, and if it is ever due. */
export function isCronExpression(text: string): boolean {
  return validate(text) && Number.isFinite(cronTimes(text)(0));
}

/** Returns the first time after another one: wall clock, milliseconds since the epoch. */
export type NextTime = (afterMs: number) => number;

const DAY_MS = 86_400_000;
/** The days of any weekday and date repeat after 28 years, or after 40 around 2100. */
const MAX_DAYS = 41 * 366;

/**
 * The times of a cron expression in local time. Where clocks are set forward, a time that is left out is due immediately;
 * where they are set back, a time that comes twice is due twice. So no day is skipped, and no gap is longer than the
 * interval. node-cron, which reads the expression, does neither, and needs the formats of Intl to find a time.
 */
export function cronTimes(expression: string): NextTime {
  const { second, minute, hour, month, ...days } = parse(expression);
  const timesOfDay = hour.flatMap((h) => minute.flatMap((m) => second.map((s) => (h * 3600 + m * 60 + s) * 1000)));
  timesOfDay.sort((a, b) => a - b);
  /** Local times are written as if they were UTC. */
  const nextLocal = (afterMs: number): number => {
    const firstMs = Math.floor(afterMs / DAY_MS) * DAY_MS;
    for (let dayMs = firstMs; dayMs < firstMs + MAX_DAYS * DAY_MS; dayMs += DAY_MS) {
      if (!month.includes(new Date(dayMs).getUTCMonth() + 1) || !isOnDay(days, dayMs)) continue;
      const time = timesOfDay.find((ms) => dayMs + ms > afterMs);
      if (time !== undefined) return dayMs + time;
    }
    return Number.POSITIVE_INFINITY;
  };
  return (afterMs) => {
    let [fromMs, offsetMs] = [afterMs, offsetAt(afterMs)];
    let localMs = nextLocal(fromMs + offsetMs);
    while (Number.isFinite(localMs) && offsetAt(localMs - offsetMs) !== offsetMs) {
      const changeMs = changeBetween(fromMs, localMs - offsetMs);
      const changedMs = offsetAt(changeMs);
      if (localMs < changeMs + changedMs) return changeMs; // a time that is left out
      [fromMs, offsetMs] = [changeMs, changedMs];
      localMs = nextLocal(changeMs + changedMs - 1);
    }
    return localMs - offsetMs;
  };
}

/** Local time minus UTC. */
function offsetAt(ms: number): number {
  return new Date(ms).getTimezoneOffset() * -60_000;
}

/** The first moment with another offset than `fromMs`; the offset at `toMs` must be another one. */
function changeBetween(fromMs: number, toMs: number): number {
  const offsetMs = offsetAt(fromMs);
  let [before, after] = [fromMs, toMs];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetAt(middle) === offsetMs) before = middle;
    else after = middle;
  }
  return after;
}

interface Days {
  readonly dayOfMonth: readonly (number | string)[];
  readonly dayOfWeek: readonly (number | string)[];
}

function isOnDay({ dayOfMonth, dayOfWeek }: Days, dayMs: number): boolean {
  const date = new Date(dayMs);
  const [day, weekday] = [date.getUTCDate(), date.getUTCDay()];
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  const isMeant = (token: number | string): boolean => {
    const [, start = '', minus = '0', nearest] = /^(L|\d+)(?:-(\d+))?(W)?$/.exec(String(token)) ?? [];
    const target = (start === 'L' ? last : Number(start)) - Number(minus);
    return day === (nearest === undefined ? target : workday(target, last, (weekday + 35 + target - day) % 7));
  };
  const isWeekday = (token: number | string): boolean => {
    const [, start, count, isLast] = /^(\d)(?:#(\d))?(L)?$/.exec(String(token)) ?? [];
    if (Number(start) % 7 !== weekday) return false;
    if (isLast !== undefined) return day + 7 > last;
    return count === undefined || Math.ceil(day / 7) === Number(count);
  };
  return dayOfMonth.some(isMeant) && dayOfWeek.some(isWeekday);
}

/** The workday next to a day of a month, in the same month; NaN if the month has no such day. */
function workday(day: number, last: number, weekday: number): number {
  if (day > last) return Number.NaN;
  if (weekday === 6) return day === 1 ? 3 : day - 1;
  if (weekday === 0) return day === last ? day - 2 : day + 1;
  return day;
}
