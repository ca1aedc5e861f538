import type { Counts } from './counts.ts';
import type { Scenario } from './scenarios.ts';

const MINUTE_MS = 60_000;

export interface Figures {
  readonly name: string;
  readonly what: string;
  readonly things: number;
  /** Mean of the schedule alone, in requests per minute. */
  readonly meanPerMinute: number;
  readonly quantiles: { readonly p50: number; readonly p99: number; readonly p999: number };
  readonly timesMean: number;
  readonly busiestSecondTimesMean: number;
  readonly mostTimesMean: number | undefined;
  /** Busiest of all minutes, including those that the limit ignores. */
  readonly busiestMinute: number;
  readonly requests: number;
  readonly refused: number;
  readonly unpromised: number;
  readonly updated: number;
  /** From the release to the last. */
  readonly updatedAfterMs: number | undefined;
  readonly bytes: number;
  readonly perMinute: readonly number[];
  readonly refusedPerMinute: readonly number[];
}

export function figuresOf(scenario: Scenario, counts: Counts): Figures {
  const { name, what, things, intervalMs, endMs, judgedFromMs, mostTimesMean, releaseAtMs } = scenario;
  const minutes = Math.floor(endMs / MINUTE_MS);
  const perMinute = [...counts.perMinute.subarray(0, minutes)];
  const judged = perMinute.slice(judgedFromMs / MINUTE_MS).sort((a, b) => a - b);
  const meanPerMinute = things / (intervalMs / MINUTE_MS);
  const quantile = (part: number): number => judged[Math.min(judged.length - 1, Math.floor(part * judged.length))] ?? 0;
  const quantiles = { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) };
  const { count, lastMs } = counts.updates;
  return {
    name,
    what,
    things,
    meanPerMinute,
    quantiles,
    timesMean: quantiles.p999 / meanPerMinute,
    busiestSecondTimesMean: counts.busiestSecond(judgedFromMs, endMs) / (meanPerMinute / 60),
    mostTimesMean,
    busiestMinute: Math.max(...perMinute),
    requests: perMinute.reduce((sum, each) => sum + each, 0),
    refused: counts.refusedPerMinute.reduce((sum, each) => sum + each, 0),
    unpromised: counts.unpromised(Math.ceil(endMs / intervalMs) + 1),
    updated: count,
    updatedAfterMs: count === 0 ? undefined : lastMs - releaseAtMs,
    bytes: counts.bytes,
    perMinute,
    refusedPerMinute: [...counts.refusedPerMinute.subarray(0, minutes)],
  };
}

export function isMissed({ timesMean, mostTimesMean, unpromised }: Figures): boolean {
  return unpromised > 0 || (mostTimesMean !== undefined && timesMean > mostTimesMean);
}
