import type { BenchContext } from './context.ts';
import type { SuiteResult } from './figures.ts';
import { spreadOf } from './statistics.ts';
import { writtenPerDay } from './telemetry-flash.ts';

/** Issue 5: what the queue writes to flash. Wants root for the loop device. */
export async function telemetrySuite({ quick, tell }: BenchContext): Promise<SuiteResult> {
  tell('what is written to a loop device');
  const groups = quick ? 200 : 600;
  const { offlineMb, onlineMb } = writtenPerDay(groups);
  const how = `100 points in five events each 10 s, sectors written to ext4 on a loop device, ${groups} groups`;
  const figures = [
    { name: 'written, offline', unit: 'MB/day', value: spreadOf([offlineMb]), target: 250, how },
    { name: 'written, online', unit: 'MB/day', value: spreadOf([onlineMb]), target: 0, how },
  ] as const;
  return { suite: 'telemetry', measurements: [], figures };
}
