import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';

import { History, withHistory } from '../../../../src/daemon/history/history.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { MemoryJournal } from '../../../../src/update/journal/journal.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';
import type { AttemptFailure, PhaseOf, UpdateState } from '../../../../src/update/journal/state.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { MemoryState } from '../memory-state.ts';

const path = '/state/history.json';
const someText: unknown = expect.any(String);
const at = '2026-12-01T10:00:30.000Z';
let state: MemoryState;
let clock: ManualClock;

beforeEach(() => {
  state = new MemoryState();
  clock = new ManualClock();
});

/** As after a start: only the content of the disk. */
function open(): History {
  return new History({ stateDirectory: '/state', clock, log: silentLog, fs: state.fs });
}

function begin(history: History, state?: UpdateState): Journal {
  return withHistory(new MemoryJournal(state), history);
}

function attemptOf(id: string, version = 'two') {
  const startedAt = '2026-12-01T10:00:00.000Z';
  return { id, version: { id: 'v2', name: version }, by: 'service', startedAt } as const;
}

async function fail(journal: Journal, id: string, failure: Partial<AttemptFailure> = {}): Promise<void> {
  await journal.append({ type: 'staging-started', attempt: attemptOf(id), slot: 'B', at });
  const figures = { fetchedBytes: 1_000, writtenBytes: 600, reusedBytes: 400, deltaBaseBytes: 300 };
  const why = { outcome: 'failed', code: 'disk-full', reason: 'the disk is full', ...failure } as const;
  await journal.append({ type: 'failed', at, failure: why, figures });
}

describe('the history of attempts', () => {
  // Regression: "begun, slot A" of a package, which goes into no slot.
  test.each([
    [undefined, 'slot B'],
    [true, 'slot B'],
    [false, undefined],
  ])('names the slot unless the gateway has none: %s', async (hasSlots, detail) => {
    const history = new History({ stateDirectory: '/state', clock, log: silentLog, fs: state.fs, hasSlots });
    const journal = begin(history);
    await fail(journal, 'a1');
    const { attempts } = await history.report(journal.state);
    expect(attempts[0]?.steps[0]).toEqual({ at: someText, step: 'staging-started', ...(detail && { detail }) });
  });

  test('shows time, versions, origin, result and cost, also after a start', async () => {
    const version = { id: 'v1', name: 'one' };
    const before = { version, digest: 'sha256:00', provides: {}, payloads: [], slot: 'A' as const, at };
    const journal = begin(open(), { ...new MemoryJournal().state, installed: before });
    await fail(journal, 'a1');
    expect(await open().report(journal.state)).toEqual({
      discarded: 0,
      attempts: [
        {
          attempt: 'a1',
          version: 'two',
          versionId: 'v2',
          from: 'one',
          by: 'service',
          startedAt: '2026-12-01T10:00:00.000Z',
          endedAt: at,
          durationSeconds: 30,
          outcome: 'failed',
          code: 'disk-full',
          reason: 'the disk is full',
          fetchedBytes: 1_000,
          writtenBytes: 600,
          reusedBytes: 400,
          deltaBaseBytes: 300,
          steps: [
            { at: someText, step: 'staging-started', detail: 'slot B' },
            { at: someText, step: 'failed' },
          ],
        },
      ],
    });
  });

  test('shows a trust list with its number', async () => {
    const journal = begin(open());
    await journal.append({ type: 'staging-started', attempt: attemptOf('a1', 'trust-7'), slot: 'B', at });
    await journal.append({ type: 'trust-list-applied', name: 'trust-7', number: 7, at });
    expect((await open().report(journal.state)).attempts).toMatchObject([
      { attempt: 'a1', version: 'trust-7', outcome: 'installed', trustList: 7 },
    ]);
  });

  test('shows the current attempt from the journal, and continues counting from a checkpoint', async () => {
    const history = open();
    const journal = begin(history);
    await journal.append({ type: 'staging-started', attempt: attemptOf('a1'), slot: 'B', at });
    await journal.append({ type: 'checkpointed', checkpoint: undefined, figures: { fetchedBytes: 7 } });
    expect((await history.report(journal.state)).attempts).toMatchObject([{ inProgress: true, fetchedBytes: 7 }]);
    await journal.append({ type: 'cancelled', at });
    const [ended] = (await open().report(journal.state)).attempts;
    expect(ended).toMatchObject({ code: 'cancelled', fetchedBytes: 7 });
    expect(ended).not.toHaveProperty('inProgress');
  });

  // Regression: the history showed an unknown end.
  test('shows that a rollback was cancelled, although it is not reported elsewhere', async () => {
    const phase: PhaseOf<'rolling-back'> = {
      kind: 'rolling-back',
      attempt: { ...attemptOf('r1'), by: 'rollback' },
      slot: 'A',
      firmware: { digest: 'sha256:00', payloads: [], provides: {} },
      code: 'cancelled',
      reason: 'cancelled by an operator before it ran',
      fault: 'person',
      boards: {},
      restores: 0,
    };
    const journal = begin(open(), { ...new MemoryJournal().state, phase });
    const { code, reason } = phase;
    await journal.append({ type: 'rolled-back', at, code, reason, fault: 'person' });
    expect(journal.state.reports).toEqual([]);
    expect((await open().report(journal.state)).attempts).toMatchObject([{ attempt: 'r1', outcome: 'failed', code }]);
  });

  test('shows an attempt that another one replaced', async () => {
    const history = open();
    const journal = begin(history);
    await journal.append({ type: 'staging-started', attempt: attemptOf('a1'), slot: 'B', at });
    await journal.append({ type: 'staging-started', attempt: attemptOf('a2', 'three'), slot: 'B', at });
    expect((await history.report(journal.state)).attempts).toMatchObject([
      { attempt: 'a1', version: 'two', code: 'superseded' },
      { attempt: 'a2', version: 'three', inProgress: true },
    ]);
  });

  test('takes from the journal what it missed: an agent that keeps none was at work, or the power failed', async () => {
    const journal = begin(open());
    await journal.append({ type: 'staging-started', attempt: attemptOf('a1'), slot: 'B', at });
    const other = new MemoryJournal(journal.state);
    const failure = { outcome: 'failed', code: 'disk-full', reason: 'full' } as const;
    await other.append({ type: 'failed', at, failure });
    await other.append({ type: 'staging-started', attempt: attemptOf('a2'), slot: 'B', at });
    await other.append({ type: 'failed', at, failure });
    const expected = [
      { attempt: 'a1', outcome: 'failed', by: 'service' },
      { attempt: 'a2', outcome: 'failed', code: 'disk-full' },
    ];
    expect((await open().report(other.state)).attempts).toMatchObject(expected);
    await fail(begin(open(), other.state), 'a3');
    expect((await open().report(new MemoryJournal().state)).attempts).toMatchObject([
      ...expected,
      { attempt: 'a3', outcome: 'failed' },
    ]);
  });

  // Regression: only "boots next, on trial" twice.
  test('shows a trial that a power loss ended, and that it is tried again', async () => {
    const journal = begin(open());
    await journal.append({ type: 'staging-started', attempt: attemptOf('a1'), slot: 'B', at });
    const firmware = { digest: 'sha256:00', provides: {}, payloads: [] };
    await journal.append({
      type: 'staged',
      firmware,
      slot: 'B',
      trials: 2,
      records: {},
      name: undefined,
      downgrade: undefined,
    });
    await journal.append({ type: 'trial-armed', bootId: 'one', rebootByHand: false });
    await journal.append({ type: 'health-check-started' });
    const restarted = begin(open(), journal.state);
    await restarted.append({ type: 'trial-armed', bootId: 'two', rebootByHand: false });
    const { attempts } = await open().report(restarted.state);
    expect(attempts[0]?.steps.slice(2)).toEqual([
      { at: someText, step: 'trial-armed' },
      { at: someText, step: 'health-check-started' },
      { at: someText, step: 'trial-armed', detail: 'again, after an interruption' },
    ]);
  });

  test('keeps the last 50, a bounded number of steps and texts, and writes only where a step may be the last', async () => {
    const history = open();
    const journal = begin(history);
    for (let turn = 0; turn < 60; turn += 1) await fail(journal, `a${turn}`, { reason: 'x'.repeat(5_000) });
    for (let turn = 0; turn < 60; turn += 1) {
      await journal.append({ type: 'staging-started', attempt: attemptOf('last'), slot: 'B', at });
      await journal.append({ type: 'staging-paused', at });
    }
    const before = state.writes;
    await journal.append({ type: 'slot-opened', target: 'gateway' });
    await journal.append({ type: 'checkpointed', checkpoint: undefined });
    await journal.append({ type: 'offer-changed', versionId: 'v2' });
    expect(state.writes).toBe(before);
    const { attempts, discarded } = await open().report(journal.state);
    expect([attempts.length, discarded, attempts[0]?.attempt]).toEqual([50, 11, 'a11']);
    expect(attempts.at(-1)?.steps).toHaveLength(24);
    expect(attempts.at(-1)?.steps[0]).toMatchObject({ step: 'staging-started' });
    expect(String(state.volume.readFileSync(path)).length).toBeLessThan(50 * 1_200);
  });

  test('keeps the entries of a newer agent, and omits unreadable ones', async () => {
    const newer = { attempt: 'a1', version: 'two', outcome: 'dissolved', mood: 'good', steps: [] };
    state.volume.writeFileSync(path, JSON.stringify({ format: 2, attempts: [newer, { attempt: 7 }], discarded: 3 }));
    await fail(begin(open()), 'a2');
    const stored: unknown = JSON.parse(String(state.volume.readFileSync(path)));
    expect(stored).toMatchObject({ attempts: [newer, { attempt: 'a2' }], discarded: 3 });
  });

  test('an attempt proceeds and is shown, whatever its file contains', async () => {
    const content = fc.oneof(fc.string(), fc.json(), fc.constant('{"attempts":[{}],"discarded":-1}'));
    await fc.assert(
      fc.asyncProperty(content, async (text) => {
        state.volume.writeFileSync(path, text);
        const journal = begin(open());
        await fail(journal, 'a1');
        expect((await open().report(journal.state)).attempts.at(-1)).toMatchObject({
          attempt: 'a1',
          code: 'disk-full',
        });
      }),
    );
  });

  test('holds up nothing where it cannot be written, and shows no secret', async () => {
    state.volume.rmdirSync('/state');
    const history = open();
    const journal = begin(history);
    await fail(journal, 'a1', { reason: 'see https://user:PASS@host/?token=abc' });
    const told = await history.report(journal.state);
    expect(told.attempts).toMatchObject([{ outcome: 'failed' }]);
    expect(JSON.stringify(told)).not.toMatch(/PASS|abc/);
  });
});
