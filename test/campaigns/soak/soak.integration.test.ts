import { execFile } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { beforeAll, expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { longestLife } from './measure.ts';
import type { SoakReport } from './soak.ts';

const WEEKS = howMuch(1, 0.25);
const MIB = 1024;
let report: SoakReport;

/** A process of its own, so that what is measured is the agent's. */
beforeAll(async () => {
  const args = [join(import.meta.dirname, 'main.ts'), '--weeks', String(WEEKS), '--seed', '1', '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 16 * 1024 * MIB });
  report = JSON.parse(stdout) as SoakReport;
}, 600_000);

function counted(what: string): number {
  return report.counts[what] ?? 0;
}

test('that time has had everything that happens to a gateway', () => {
  expect(counted('outcome up-to-date') + counted('outcome deferred')).toBeGreaterThan(WEEKS * 500);
  const happenings = ['installed', 'rolled-back', 'rebooting'].map((outcome) => `outcome ${outcome}`);
  const more = ['configuration reloaded', 'broken configuration reloaded', 'daemon restarted', 'agent status'];
  expect([...happenings, ...more].filter((what) => counted(what) < WEEKS * 3)).toEqual([]);
  expect(counted('fault of the service')).toBeGreaterThan(WEEKS * 20);
});

test.each([
  ['heapKib', 2 * MIB],
  ['externalKib', MIB],
  ['descriptors', 2],
  ['timers', 2],
  ['resources', 3],
  ['listeners', 1],
] as const)('%s has the same value at the end as at the beginning, within %i', (name, slack) => {
  for (const growth of [report.growth, report.growthOfALife]) {
    const { early = Number.NaN, late } = growth.find(({ figure }) => figure === name) ?? {};
    expect(late).toBeLessThanOrEqual(early + slack);
  }
});

test('a daemon that runs for days is among them', () => {
  expect(longestLife(report.samples).length).toBeGreaterThan(8);
});
