import { parsedJson } from '../../../system/json-value.ts';
import { pointClasses } from '../../point.ts';
import type { PointClass } from '../../point.ts';

/** The kind of a row: a datapoint of a class, or the value of a property. */
export const rowClasses = [...pointClasses, 'property'] as const;
export type RowClass = (typeof rowClasses)[number];

/** No queue has had as many rows. */
const SPAN = 2 ** 40;
/** The bound for a time, in milliseconds from 1970: a date of JavaScript cannot hold a later one. */
const MAX_TIME_MS = 2 ** 48;

/**
 * The class is in the high bits of a seq. So one key gives the order of delivery and of eviction; an index would double
 * what is written. Normal datapoints have the smallest numbers, which take the least space.
 */
const bases: Readonly<Record<RowClass, number>> = { urgent: -SPAN, normal: 0, bulk: SPAN, property: 2 * SPAN };

export interface SeqRange {
  readonly first: number;
  readonly last: number;
}

export function rangeOf(rowClass: RowClass): SeqRange {
  return { first: bases[rowClass], last: bases[rowClass] + SPAN - 1 };
}

/** The seqs of all datapoints, of all rows. */
export const pointRange: SeqRange = { first: rangeOf('urgent').first, last: rangeOf('bulk').last };
export const wholeRange: SeqRange = { first: rangeOf('urgent').first, last: rangeOf('property').last };

/** Returns the seq of the n-th datapoint of a class, or of the property with the stream n, whose values share a row. */
export function seqOf(rowClass: RowClass, n: number): number {
  return bases[rowClass] + n;
}

export function classOf(seq: number): RowClass {
  return rowClasses[Math.floor(seq / SPAN) + 1] ?? 'property';
}

export interface StoredPoint {
  readonly seq: number;
  readonly stream: number;
  /** Omitted if the clock was not set. */
  readonly atMs: number | undefined;
  /** The row of `boots` in which the datapoint came; `sinceBootMs` is the time since then. */
  readonly boot: number;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
}

export interface StreamRecord {
  readonly id: number;
  readonly kind: 'event' | 'property';
  readonly name: string;
  /** The latest `at` that was given to a datapoint; the next one gets a later time. */
  readonly lastAtMs: number;
  /** The same for datapoints that came before the clock was set. */
  readonly lastSinceBootMs: number;
}

export interface BootRecord {
  readonly id: number;
  readonly name: string;
  /** The time of the last datapoint. */
  readonly lastMs: number;
  /** The wall clock at its start. Omitted if its clock was never set. */
  readonly startedAtMs: number | undefined;
}

export interface DeadLetter {
  readonly event: string;
  readonly atMs: number;
  readonly text: string;
  readonly reason: string;
}

export interface Amount {
  points: number;
  bytes: number;
}

export type Totals = Readonly<Record<RowClass, Amount>>;

export function emptyTotals(): Totals {
  const none = (): Amount => ({ points: 0, bytes: 0 });
  return { urgent: none(), normal: none(), bulk: none(), property: none() };
}

/** Returns the total of all datapoints, without properties. */
export function totalOf(totals: Readonly<Record<PointClass, Readonly<Amount>>>): Amount {
  const sum = { points: 0, bytes: 0 };
  for (const pointClass of pointClasses) {
    sum.points += totals[pointClass].points;
    sum.bytes += totals[pointClass].bytes;
  }
  return sum;
}

/** True if a row can be a datapoint. SQLite does not know: it has no checksums of pages. */
export function isWhole({ seq, atMs = 0, sinceBootMs, text }: StoredPoint): boolean {
  if (seq < wholeRange.first || seq > wholeRange.last) return false;
  if (!(Math.abs(atMs) < MAX_TIME_MS) || !(Math.abs(sinceBootMs) < MAX_TIME_MS)) return false;
  return parsedJson(text) !== undefined;
}
