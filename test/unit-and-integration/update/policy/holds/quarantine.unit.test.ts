import { describe, expect, test } from 'vitest';

import { initialState } from '../../../../../src/update/journal/state.ts';
import type { Quarantined, UpdateState } from '../../../../../src/update/journal/state.ts';
import {
  restartDurations,
  hasEnded,
  heldVersions,
  blocksFirmware,
  activeEntries,
  unblock,
  needsDate,
  quarantinedError,
  withQuarantined,
} from '../../../../../src/update/policy/holds/quarantine.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2027, 0, 1);

function held(id: string | undefined, change: Partial<Quarantined> = {}): Quarantined {
  const version = { id, name: `version ${id ?? 'of a file'}` };
  const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
  return { digest, version, code: 'unhealthy', reason: 'bad', at: new Date(START_MS).toISOString(), ...change };
}

function holding(...entries: readonly Quarantined[]): UpdateState {
  return { ...initialState, quarantine: [...entries] };
}

describe('a quarantine', () => {
  // Seen: "lift it with agent unblock", which wants a VERSION, after a digest of which no command takes the whole.
  test.each([
    [{ id: '7', name: '1.4.0' }, '1.4.0'],
    [{ id: '7', name: 'of a file' }, '7'],
    [{ id: undefined, name: '--force' }, 'VERSION'],
  ])('of %j is told with what lifts it: %s', (version, word) => {
    const { message, advice } = quarantinedError(held('1', { version }));
    expect(message).toBe(`it ended badly before (${version.name}: bad)`);
    expect(advice).toContain(`agent unblock ${word}, or repeat with --force`);
  });

  test('ends by the clock, after as long as is set', () => {
    const state = holding(held('1'));
    expect(activeEntries(state, START_MS + 30 * DAY_MS - 1, 30 * DAY_MS)).toHaveLength(1);
    expect(activeEntries(state, START_MS + 30 * DAY_MS, 30 * DAY_MS)).toEqual([]);
  });

  test('does not end by a clock that is not set, or was set back', () => {
    expect(hasEnded(held('1').at, 0, 1)).toBe(false);
    expect(hasEnded(held('1').at, START_MS - 1, 1)).toBe(false);
  });

  // A gateway without a battery starts in 1970, and is told the time a minute later.
  test('that began before the clock was set counts from when it was', () => {
    const state = holding(held('1', { at: '1970-01-01T00:01:00.000Z' }), held('2'));
    expect(needsDate(state, 0)).toBe(false);
    expect(needsDate(state, START_MS)).toBe(true);
    expect(activeEntries(state, START_MS, DAY_MS)).toHaveLength(2);
    const dated = restartDurations(state, new Date(START_MS).toISOString());
    expect(needsDate(dated, START_MS)).toBe(false);
    expect(activeEntries(dated, START_MS + DAY_MS, DAY_MS)).toEqual([]);
  });

  // Seen: what failed while the clock showed 2040 was held back until 2040, and so was what was held for an hour.
  test.each(['2040-01-01T00:00:00.000Z', '1970-01-01T00:01:00.000Z'])(
    'like a pause or a hold, that began at %s by a clock that was wrong, counts from when it was set right',
    (at) => {
      const wrong = Date.parse(at);
      const tries = { versionId: '1', begun: 3, failed: 3, gaveUp: 3, since: at };
      const standstill = { since: at, until: new Date(wrong + DAY_MS).toISOString(), reason: 'harvest' };
      const state = { ...holding(held('2', { at })), tries, otherTries: [{ ...tries, versionId: '3' }], standstill };
      expect(needsDate(state, START_MS)).toBe(true);
      const now = new Date(START_MS).toISOString();
      const dated = restartDurations(state, now);
      expect(needsDate(dated, START_MS)).toBe(false);
      expect(dated).toMatchObject({ tries: { since: now, gaveUp: 3 }, otherTries: [{ since: now }] });
      expect(activeEntries(dated, START_MS + DAY_MS, DAY_MS)).toEqual([]);
      const until = new Date(START_MS + DAY_MS).toISOString();
      expect(dated.standstill).toEqual({ since: now, until, reason: 'harvest' });
    },
  );

  test('that needs no other date keeps its own, and so do a pause and a hold', () => {
    const since = new Date(START_MS - 1).toISOString();
    const tries = { versionId: '1', begun: 1, failed: 1, gaveUp: 1, since };
    const state = { ...holding(held('2', { at: since })), tries, standstill: { since } };
    expect(needsDate(state, START_MS)).toBe(false);
    expect(restartDurations(state, new Date(START_MS).toISOString())).toEqual(state);
  });

  test.each(['1', 'version 1', 'sha256:0123456789ab', '0123456789ab'])('is lifted by %s', (word) => {
    const entry = held('1');
    const state = { ...holding(entry), tries: { versionId: '1', begun: 1, failed: 1, gaveUp: 1 } };
    expect(unblock(state, word)).toMatchObject({ quarantine: [], tries: undefined });
  });

  test.each(['0123', '2', 'version', ''])('is not lifted by %j', (word) => {
    const entry = held('1');
    expect(unblock(holding(entry), word).quarantine).toEqual([entry]);
  });

  test('of one version leaves the others', () => {
    const other = held('2', { digest: 'sha256:other' });
    expect(unblock(holding(held('1'), other), '1').quarantine).toEqual([other]);
  });

  test('holds the same content under the id that failed, and from a file, but not under a new id', () => {
    const entry = held('1');
    const digest = entry.digest ?? '';
    expect(blocksFirmware(entry, digest, { id: '1', name: 'one' })).toBe(true);
    expect(blocksFirmware(entry, digest, { name: 'a file' })).toBe(true);
    expect(blocksFirmware(entry, digest, { id: '2', name: 'one' })).toBe(false);
    expect(blocksFirmware(entry, 'sha256:other', { name: 'a file' })).toBe(false);
  });

  test('remembers the sixteen that came last, each once', () => {
    let state: UpdateState = initialState;
    for (let id = 1; id <= 20; id += 1) state = withQuarantined(state, held(String(id)));
    state = withQuarantined(state, held('20', { reason: 'again' }));
    expect(state.quarantine).toHaveLength(16);
    expect(state.quarantine.at(-1)).toMatchObject({ version: { id: '20' }, reason: 'again' });
  });
});

test.each([
  ['begun once', { begun: 1, failed: 0, gaveUp: 0 }, []],
  ['cut off until it pauses', { begun: 6, failed: 0, gaveUp: 0 }, ['1']],
  ['begun, and failed', { begun: 1, failed: 1, gaveUp: 0 }, ['1']],
])('a version that was %s is held back, or not', (_, tries, names) => {
  const since = new Date(START_MS).toISOString();
  const state = { ...initialState, tries: { versionId: '1', since, ...tries } };
  expect(heldVersions(state, '1', START_MS)).toEqual(names);
});
