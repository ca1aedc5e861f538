import { parsedJson } from '../../../system/json-value.ts';
import type { PointClass } from '../../point.ts';

/** No spool has had as many points. */
export const maxSeq = 2 ** 40;
/** No time of a point lies further from 1970: a date of JavaScript could not hold it. */
export const maxTimeMs = 2 ** 48;

export interface StoredPoint {
  readonly seq: number;
  readonly stream: number;
  /** Undefined: the clock was not set. */
  readonly atMs: number | undefined;
  /** The row of `boots` in which the point came; `sinceBootMs` is the time since then. */
  readonly boot: number;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
}

export interface StreamRecord {
  readonly id: number;
  readonly event: string;
  readonly class: PointClass;
  /** The latest `at` that was given to a point; the next one gets a later time. */
  readonly lastAtMs: number;
  /** The same for points that came before the clock was set. */
  readonly lastSinceBootMs: number;
}

export interface BootRecord {
  readonly id: number;
  readonly name: string;
  /** The time of the last point. */
  readonly lastMs: number;
  /** The wall clock at its start; undefined: its clock was never set. */
  readonly startedAtMs: number | undefined;
}

export interface DeadLetter {
  readonly event: string;
  readonly atMs: number;
  readonly text: string;
  readonly reason: string;
}

/** Points of one class by their seq, both ends included; of one stream, or of all. */
export interface PointRange {
  readonly class: PointClass;
  readonly first: number;
  readonly last: number;
  readonly stream?: number | undefined;
}

export interface Amount {
  readonly points: number;
  readonly bytes: number;
}

export type QueueTotals = Readonly<Record<PointClass, Amount>>;

const nothing: Amount = { points: 0, bytes: 0 };

export const emptyTotals: QueueTotals = { urgent: nothing, normal: nothing, bulk: nothing };

export function totalOf(holdings: QueueTotals): Amount {
  const add = (sum: Amount, { points, bytes }: Amount): Amount => ({
    points: sum.points + points,
    bytes: sum.bytes + bytes,
  });
  return Object.values(holdings).reduce(add, nothing);
}

/** Whether a row can be a point, which SQLite does not know: it has no checksums of pages. */
export function isWhole({ seq, atMs = 0, sinceBootMs, text }: StoredPoint): boolean {
  if (seq > maxSeq || !(Math.abs(atMs) < maxTimeMs) || !(Math.abs(sinceBootMs) < maxTimeMs)) return false;
  return isJson(text);
}

export function isJson(text: string): boolean {
  return parsedJson(text) !== undefined;
}
