import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { initialState } from '../../../../src/update/journal/state.ts';
import type { UpdateState, VersionEntry } from '../../../../src/update/journal/state.ts';
import {
  countCheck,
  countBegin,
  countFailure,
  countProgress,
  entryOf,
} from '../../../../src/update/journal/versions.ts';
import { MAX_PAUSE_CHECKS, CHECK_MS, pauseLeft } from '../../../../src/update/policy/backoff.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { plainFirmware, openPlainFirmware } from '../plain-firmware.ts';
import { blockedIn } from '../version-entries.ts';

const version = { id: '2', name: 'two' };
const START_MS = Date.UTC(2027, 0, 1);
const DAY_MS = 86_400_000;
const UNSET_CLOCK_MS = 3_600_000;

type Ledger = Pick<UpdateState, 'versions'>;

/** The ledger after these events, each about the version. */
function after(ledger: Ledger, ...counts: readonly ((ledger: Ledger) => Ledger)[]): Ledger {
  return counts.reduce((before, count) => count(before), ledger);
}

const begin =
  (of = version, at = '') =>
  (ledger: Ledger) =>
    countBegin(ledger, of, at);

function lastOf({ versions }: Ledger): VersionEntry {
  const entry = versions.at(-1);
  if (entry === undefined) throw new Error('nothing was begun');
  return entry;
}

function ledgerOf(failures: number, atMs: number): Ledger {
  const at = new Date(atMs).toISOString();
  const fail = (ledger: Ledger) => countFailure(ledger, { version }, at, false);
  return after(initialState, begin(version, at), ...Array.from({ length: failures }, () => fail));
}

function failedTimes(failures: number, atMs: number): VersionEntry {
  return lastOf(ledgerOf(failures, atMs));
}

/** A gateway's life: hours of operation each day, interval of checks, and whether it has a clock. */
const life = fc.record({
  failures: fc.nat(200),
  looksADay: fc.integer({ min: 1, max: 96 }),
  hasClock: fc.boolean(),
});

/** Days until the version is tried again; the process restarts each day. */
function daysUntilTried({
  failures,
  looksADay,
  hasClock,
}: typeof life extends fc.Arbitrary<infer T> ? T : never): number {
  const clock = (day: number, look: number): number =>
    hasClock ? START_MS + day * DAY_MS + look * CHECK_MS : UNSET_CLOCK_MS + look * CHECK_MS;
  let tries = failedTimes(failures, clock(0, 0));
  for (let day = 0; day <= MAX_PAUSE_CHECKS; day += 1) {
    const restored: unknown = JSON.parse(JSON.stringify(tries));
    expect(restored).toEqual(tries);
    for (let look = 0; look < looksADay; look += 1) {
      if (pauseLeft(tries, clock(day, look)) === 0) return day;
      tries = countCheck(tries);
    }
  }
  throw new Error('it is never tried again');
}

describe('a pause after failures', () => {
  // Regression: a gateway that runs for eight hours a day, 32 checks, never tried again after eight interrupted
  // transfers.
  test.each([
    [{ failures: 8, looksADay: 32, hasClock: true }, 1],
    [{ failures: 8, looksADay: 32, hasClock: false }, 2],
  ])('ends on a gateway that is switched off each night (%j)', (gateway, days) => {
    expect(daysUntilTried(gateway)).toBeLessThanOrEqual(days);
  });

  test('ends whatever the gateway is like: by its looks, and with a clock within a day of time', () => {
    fc.assert(
      fc.property(life, (gateway) => {
        const days = daysUntilTried(gateway);
        expect(days).toBeLessThanOrEqual(Math.ceil(MAX_PAUSE_CHECKS / gateway.looksADay));
        expect(days).toBeLessThanOrEqual(gateway.hasClock ? 1 : MAX_PAUSE_CHECKS);
      }),
    );
  });

  test('never shrinks with another failure, and never lasts longer than the longest', () => {
    fc.assert(
      fc.property(fc.nat(100), fc.boolean(), (failures, hasClock) => {
        const atMs = hasClock ? START_MS : UNSET_CLOCK_MS;
        const left = pauseLeft(failedTimes(failures, atMs), atMs);
        expect(left).toBeGreaterThanOrEqual(pauseLeft(failedTimes(Math.max(0, failures - 1), atMs), atMs));
        expect(left).toBeLessThanOrEqual(MAX_PAUSE_CHECKS);
      }),
    );
  });

  test.each([
    ['was not set then', UNSET_CLOCK_MS, START_MS],
    ['is not set now', START_MS, UNSET_CLOCK_MS],
    ['was set back', START_MS + DAY_MS, START_MS],
  ])('is not ended by a clock that %s', (_, thenMs, nowMs) => {
    const tries = failedTimes(4, thenMs);
    expect(pauseLeft(tries, nowMs)).toBe(7);
    expect(pauseLeft(countCheck(tries), nowMs)).toBe(6);
  });
});

describe('what is begun and cut off', () => {
  test('counts as a failure only from the fifth time on', () => {
    const at = new Date(UNSET_CLOCK_MS).toISOString();
    let ledger: Ledger = initialState;
    const lefts = Array.from({ length: 8 }, () => {
      ledger = after(ledger, begin(version, at));
      return pauseLeft(lastOf(ledger), UNSET_CLOCK_MS);
    });
    expect(lefts).toEqual([0, 0, 0, 0, 0, 1, 3, 7]);
  });

  test('counts for nothing as long as it gets further each time', () => {
    let state = ledgerOf(0, UNSET_CLOCK_MS);
    for (let cut = 0; cut < 50; cut += 1) {
      state = after(state, begin(), (then) => countProgress(then, version));
      expect(pauseLeft(lastOf(state), UNSET_CLOCK_MS)).toBe(0);
    }
  });

  test('counts for one version: another one starts from nothing', () => {
    const state = after(ledgerOf(9, START_MS), begin({ id: '3', name: 'three' }));
    expect(lastOf(state)).toMatchObject({ version: { id: '3' }, begun: 1, failed: 0 });
  });

  test('is kept of a version while others are tried, of the last 64', () => {
    const ids = (count: number) =>
      Array.from({ length: count }, (_, index) => begin({ id: `${10 + index}`, name: '' }));
    const kept = after(ledgerOf(9, START_MS), ...ids(64));
    expect(entryOf(kept.versions, { version })).toMatchObject({ begun: 1, failed: 9 });
    expect(entryOf(after(ledgerOf(9, START_MS), ...ids(65)).versions, { version })).toBeUndefined();
  });
});

// Regression: each of the two was counted from zero, 200 checks were 200 reboots, and neither was ever blocked.
test('alternating versions that do not start are blocked in the end', async () => {
  const firmware = new Map(['1', '2'].map((id) => [id, plainFirmware(`dead version ${id}`)]));
  const service = new MemoryService(firmware, '1');
  const complaint = (content: string): string | undefined => (content.startsWith('dead') ? 'hang' : undefined);
  const slots = { A: 'factory image', B: '' };
  const gateway = new Gateway({ service, openFirmware: openPlainFirmware, slots, complaint });
  gateway.start();
  let reboots = 0;
  for (let look = 0; look < 50; look += 1) {
    const { kind } = await gateway.look();
    const { phase } = (await gateway.journal()).state;
    if (phase.kind === 'trial' && phase.trialsLeft === 0) service.target = service.target === '1' ? '2' : '1';
    if (kind !== 'rebooting') continue;
    reboots += 1;
    gateway.start();
  }
  expect(reboots).toBe(12);
  const blocked = blockedIn((await gateway.journal()).state);
  expect(new Set(blocked.map(({ version }) => version.id))).toEqual(new Set(['1', '2']));
});

// Regression: three I/O errors of the slot blocked a release for 30 days.
test('a failing medium delays a release, and uses up no attempts', async () => {
  const service = new MemoryService(new Map(['1', '2'].map((id) => [id, plainFirmware(`image ${id}`)])), '1');
  const gateway = new Gateway({ service, openFirmware: openPlainFirmware, slots: { A: 'factory', B: '' } });
  gateway.start();
  service.target = '2';
  gateway.slots.trouble = () => true;
  for (let attempts = 0; attempts < 9; attempts += 1)
    await expect(gateway.look()).rejects.toMatchObject({ code: 'slot-io-error' });
  gateway.slots.trouble = () => false;
  expect(await gateway.look()).toMatchObject({ kind: 'rebooting' });
});
