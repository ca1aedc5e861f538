import process from 'node:process';

import { expect, test } from 'vitest';

import { processorSeconds } from './processor-seconds.ts';

/** The kernel counts user and kernel mode in ticks of 10 ms, and rounds each down. */
const ROUNDED_SECONDS = 0.02;

function ownSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

test('tells what a process has used of processors, as the process itself knows it', () => {
  const before = ownSeconds();
  const told = processorSeconds(process.pid);
  expect(told).toBeGreaterThan(before - ROUNDED_SECONDS);
  expect(told).toBeLessThanOrEqual(ownSeconds());
});

test('knows nothing of a process that is not there', () => {
  expect(processorSeconds(2 ** 30)).toBeUndefined();
});
