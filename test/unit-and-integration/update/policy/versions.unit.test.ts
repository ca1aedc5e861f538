import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../../src/system/errors.ts';
import { advance } from '../../../../src/update/journal/reducer.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { UpdateState, VersionEntry } from '../../../../src/update/journal/state.ts';
import {
  mark,
  countFailure,
  restartDurations,
  entryOf,
  unblock,
  needsDate,
} from '../../../../src/update/journal/versions.ts';
import type { Blocked } from '../../../../src/update/journal/versions.ts';
import {
  hasEnded,
  findBlocked,
  activeEntries,
  isFull,
  quarantinedError,
} from '../../../../src/update/policy/backoff.ts';
import { unverifiedFirmware } from '../../../../src/update/running-version.ts';
import { entryWith } from '../version-entries.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2027, 0, 1);
const NOW = new Date(START_MS).toISOString();

function held(id: string | undefined, change: Partial<VersionEntry> = {}, at = NOW): Blocked {
  const version = { id, name: `version ${id ?? 'of a file'}` };
  const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
  const bad = { code: 'unhealthy', reason: 'bad', at };
  return { ...entryWith({ digest, version, ...change }), bad };
}

function holding(...entries: readonly VersionEntry[]): UpdateState {
  return { ...initialState, versions: [...entries] };
}

describe('a quarantine', () => {
  // Regression: "run agent unblock", which wants a VERSION, after a digest of which no command takes the whole.
  test.each([
    [{ id: '7', name: '1.4.0' }, '1.4.0'],
    [{ id: '7', name: 'of a file' }, '0123456789ab'],
    [{ id: undefined, name: '--force' }, '0123456789ab'],
  ])('of %j is shown with its remedy: %s', (version, word) => {
    const { message, advice } = quarantinedError(held('1', { version }));
    expect(message).toBe(`${version.name} is blocked: bad`);
    expect(advice).toContain(`agent unblock ${word}, or repeat with --force`);
  });

  test('ends by the clock, after as long as is set', () => {
    const state = holding(held('1'));
    expect(activeEntries(state, START_MS + 30 * DAY_MS - 1, 30 * DAY_MS)).toHaveLength(1);
    expect(activeEntries(state, START_MS + 30 * DAY_MS, 30 * DAY_MS)).toEqual([]);
  });

  // An attacker who runs the service would have a bad release tried again each month.
  test('ends only after agent unblock if no time is set', () => {
    const failed = held('1');
    expect(activeEntries(holding(failed), START_MS + 3650 * DAY_MS)).toEqual([failed]);
    expect(isFull(holding(...Array<Blocked>(64).fill(failed)), undefined, START_MS + 3650 * DAY_MS)).toBe(true);
    expect(activeEntries(unblock(holding(failed), failed), START_MS)).toEqual([]);
  });

  test('does not end by a clock that is not set, or was set back', () => {
    expect(hasEnded(NOW, 0, 1)).toBe(false);
    expect(hasEnded(NOW, START_MS - 1, 1)).toBe(false);
  });

  // A gateway without a battery starts in 1970, and gets the time a minute later.
  test('that began before the clock was set counts from when it was', () => {
    const state = holding(held('1', {}, '1970-01-01T00:01:00.000Z'), held('2'));
    expect(needsDate(state, 0)).toBe(false);
    expect(needsDate(state, START_MS)).toBe(true);
    expect(activeEntries(state, START_MS, DAY_MS)).toHaveLength(2);
    const dated = restartDurations(state, new Date(START_MS).toISOString());
    expect(needsDate(dated, START_MS)).toBe(false);
    expect(activeEntries(dated, START_MS + DAY_MS, DAY_MS)).toEqual([]);
  });

  // Regression: a failure while the clock showed 2040 blocked its version until 2040, and so did a hold of an hour.
  test.each(['2040-01-01T00:00:00.000Z', '1970-01-01T00:01:00.000Z'])(
    'like a pause or a hold, that began at %s by a clock that was wrong, counts from when it was set right',
    (at) => {
      const wrong = Date.parse(at);
      const tries = { begun: 3, failed: 3, gaveUp: 3, since: at };
      const standstill = { since: at, until: new Date(wrong + DAY_MS).toISOString(), reason: 'harvest' };
      const state = { ...holding(held('2', {}, at), { ...tries, version: { id: '1', name: '' } }), standstill };
      expect(needsDate(state, START_MS)).toBe(true);
      const now = new Date(START_MS).toISOString();
      const dated = restartDurations(state, now);
      expect(needsDate(dated, START_MS)).toBe(false);
      const installed = {
        ...unverifiedFirmware({ targets: new Map() }),
        version: { name: '1.0' },
        slot: 'A',
        at,
      } as const;
      const lastOutcome = { attempt: 'a', version: '1.0', outcome: 'installed', code: 'ok', reason: '', at } as const;
      expect(needsDate({ ...initialState, installed }, START_MS)).toBe(true);
      const past = restartDurations({ ...initialState, installed, lastOutcome }, now);
      expect([past.installed?.at, past.lastOutcome?.at]).toEqual([now, now]);
      expect(dated.versions).toMatchObject([{ bad: { at: now } }, { since: now, gaveUp: 3 }]);
      expect(activeEntries(dated, START_MS + DAY_MS, DAY_MS)).toEqual([]);
      const until = new Date(START_MS + DAY_MS).toISOString();
      expect(dated.standstill).toEqual({ since: now, until, reason: 'harvest' });
    },
  );

  test('that needs no other date keeps its own, and so do a pause and a hold', () => {
    const since = new Date(START_MS - 1).toISOString();
    const tried = entryWith({ version: { id: '1', name: '' }, begun: 1, failed: 1, gaveUp: 1, since });
    const state = { ...holding(held('2', {}, since), tried), standstill: { since } };
    expect(needsDate(state, START_MS)).toBe(false);
    expect(restartDurations(state, new Date(START_MS).toISOString())).toEqual(state);
  });

  test.each(['version 1', 'sha256:0123456789ab', '0123456789ab'])('is named by %s', (word) => {
    const entry = held('1', { begun: 1, failed: 1, gaveUp: 1 });
    expect(findBlocked(holding(held('2', { digest: 'sha256:other' }), entry), word, START_MS)).toBe(entry);
  });

  test.each(['0123', '1', '2', 'version', ''])('is not named by %j', (word) => {
    expect(() => findBlocked(holding(held('1')), word, START_MS)).toThrow(`no version ${word} is blocked`);
  });

  test('of one version leaves the others', () => {
    const other = held('2', { digest: 'sha256:other' });
    expect(unblock(holding(held('1'), other), { version: { name: 'version 1', id: '1' } }).versions).toEqual([other]);
  });

  // Regression: the service gave a bad release the name of another one as its ID, and both were unblocked.
  test('is named by its own name, not by an ID that the service made equal to it', () => {
    const wanted = held('1');
    const bad = held('version 1', { digest: 'sha256:bad', version: { id: 'version 1', name: 'bad' } });
    const untried = entryWith({ version: { id: 'x', name: 'version 1' }, failed: 1 });
    expect(findBlocked(holding(bad, untried, wanted), 'version 1', START_MS)).toBe(wanted);
  });

  test('refuses a word that names several releases, and lists them', () => {
    const twin = held('1', { digest: 'sha256:other' });
    const found = (): unknown => findBlocked(holding(held('1'), twin), 'version 1', START_MS);
    expect(found).toThrow('version 1 (sha256:other)');
    expect(valueOf(found)).toBe('version-ambiguous');
    const [one, two] = ['2', '3'].map((id) => entryWith({ version: { id, name: id === '2' ? '3' : 'x' }, failed: 1 }));
    expect(() => findBlocked({ versions: [one, two].filter((entry) => entry !== undefined) }, '3', START_MS)).toThrow(
      '3 names several blocked versions: 3 (ID 2), x (ID 3)',
    );
  });

  // Regression: seventeen ids in turn evicted an entry that was quarantined for 30 days, and it was tried again.
  test('is never pushed out by others, of which no more are begun when there is no room for them', () => {
    let ledger: Pick<UpdateState, 'versions'> = { versions: [] };
    for (let id = 0; id < 64; id += 1) {
      expect(isFull(ledger, undefined, START_MS, DAY_MS)).toBe(false);
      ledger = mark(ledger, { version: { id: `${id}`, name: '' }, digest: `sha256:${id}` }, { bad: held('').bad });
    }
    for (let id = 0; id < 100; id += 1)
      ledger = countFailure(ledger, { version: { id: `garbage ${id}`, name: '' } }, NOW, true);
    expect(isFull(ledger, undefined, START_MS, DAY_MS)).toBe(true);
    expect(isFull(ledger, ledger.versions[0], START_MS, DAY_MS)).toBe(false);
    expect(isFull(ledger, undefined, START_MS + DAY_MS, DAY_MS)).toBe(false);
    expect(activeEntries(ledger, START_MS, DAY_MS)).toHaveLength(64);
    expect(ledger.versions.length).toBeLessThan(130);
  });
});

describe('a version', () => {
  const attempt = (id: string, more: object = {}) =>
    ({ id: 'a', version: { id, name: 'x' }, by: 'service', startedAt: NOW, ...more }) as const;

  /** Begins an attempt, and reads the header. */
  function begun(state: UpdateState, id: string, digest: string, more: object = {}): UpdateState {
    const staging = advance(state, { type: 'staging-started', attempt: attempt(id, more), slot: 'B', at: NOW });
    return advance(staging, { type: 'identified', digest, ...more });
  }

  test('with the same content under another id inherits what is remembered of it', () => {
    const first = held('1', { digest: 'sha256:d', begun: 3, failed: 2, gaveUp: 1, since: 'then', looks: 1 });
    const { versions } = begun(holding(first), '2', 'sha256:d');
    expect(versions).toEqual([{ ...first, version: { id: '2', name: 'x' }, begun: 4 }]);
    expect(entryOf(versions, { version: { id: '1', name: '' } })).toBeUndefined();
  });

  test('with other content under the same id starts from zero, and the former content is remembered', () => {
    const first = entryWith({ digest: 'sha256:d', version: { id: '1', name: 'x' }, begun: 2, failed: 2, gaveUp: 2 });
    const { versions } = begun(holding(first), '1', 'sha256:e');
    expect(entryOf(versions, { version: { name: '' }, digest: 'sha256:d' })).toMatchObject({ failed: 2, begun: 2 });
    expect(entryOf(versions, { version: { id: '1', name: 'x' } })).toMatchObject({
      digest: 'sha256:e',
      begun: 1,
      failed: 0,
    });
  });

  test('that was cancelled stays cancelled under another id, until an operator requests it', () => {
    const cancelled = entryWith({ digest: 'sha256:d', version: { id: '1', name: 'x' }, cancelled: true });
    expect(begun(holding(cancelled), '2', 'sha256:d').versions).toMatchObject([{ cancelled: true }]);
    expect(begun(holding(cancelled), '2', 'sha256:d', { manual: true }).versions).toMatchObject([
      { cancelled: undefined },
    ]);
  });

  test('is remembered by whichever of its names is known', () => {
    const known = entryWith({ digest: 'sha256:d', version: { id: '1', name: 'x' } });
    const fresh = entryWith({ version: { id: '2', name: 'y' } });
    const of = (id: string | undefined, digest?: string, name = 'x') =>
      entryOf([known, fresh], { version: { id, name }, digest });
    expect([of('1'), of(undefined, 'sha256:d'), of('9', 'sha256:d'), of('1', 'sha256:d', 'z')]).toEqual(
      Array(4).fill(known),
    );
    expect([of('2', undefined, 'y'), of('2', 'sha256:new', 'y')]).toEqual([fresh, fresh]);
    expect([of('1', 'sha256:other'), of('3'), of(undefined), of('1', undefined, 'z')]).toEqual(
      Array(4).fill(undefined),
    );
  });
});

test.each([
  ['begun once', { begun: 1, failed: 0, gaveUp: 0 }, false],
  ['cut off until it pauses', { begun: 6, failed: 0, gaveUp: 0 }, true],
  ['begun, and failed', { begun: 1, failed: 1, gaveUp: 0 }, true],
])('a version that was %s is blocked, or not', (_, tries, isBlocked) => {
  const since = new Date(START_MS).toISOString();
  const state = holding({ version: { id: '1', name: 'one' }, since, ...tries });
  const found = valueOf(() => findBlocked(state, '1', START_MS).version.name);
  expect(found).toBe(isBlocked ? 'one' : 'version-not-blocked');
});

/** Returns the code instead of an error. */
function valueOf<T>(work: () => T): T | string {
  try {
    return work();
  } catch (error) {
    if (error instanceof AgentError) return error.code;
    throw error;
  }
}
