import { readFileSync } from 'node:fs';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { readState } from '../../../../src/update/journal/read-state.ts';
import { advance } from '../../../../src/update/journal/reducer.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Outcome, UpdateState } from '../../../../src/update/journal/state.ts';
import { blockedIn, entryWith } from '../version-entries.ts';

/** As an agent writes it that does not exist yet: another phase, and more in every part. */
const ofNextVersion = readFileSync(new URL('journal-of-the-next-version.json', import.meta.url), 'utf8');

const bad = { code: 'unhealthy', reason: 'r', at: 'a' };
const banned = entryWith({ digest: 'sha256:bad', version: { name: 'bad' }, bad });
const report: Outcome = {
  attempt: 'a1',
  version: 'bad',
  outcome: 'rolled-back',
  code: 'unhealthy',
  reason: 'r',
  at: 'a',
};
const state: UpdateState = { ...initialState, versions: [banned], reports: [report], lastOutcome: report };

test('reads each member of a journal of version 0.1', () => {
  const text = readFileSync(new URL('journal-of-0.1.json', import.meta.url), 'utf8');
  expect(readState(text)).toEqual({ state: JSON.parse(text) as unknown, damage: [] });
});

describe('a journal is read part by part', () => {
  test('and is the same again, with nothing amiss', () => {
    expect(readState(JSON.stringify(state))).toEqual({ state, damage: [] });
  });

  test.each<[string, unknown, Partial<UpdateState>]>([
    ['phase', { kind: 'dreaming' }, { phase: { kind: 'lost', was: { kind: 'dreaming' } } }],
    ['phase', undefined, { phase: { kind: 'lost' } }],
    ['installed', 7, {}],
    ['lastOutcome', [], { lastOutcome: undefined }],
    ['slots', { C: {} }, {}],
    ['versions', [{}, banned, 7], {}],
    ['reports', [null, report], {}],
    ['versions', 'all of it', { versions: [] }],
  ])('%s that cannot be understood (%j) costs nothing else', (name, part, expected) => {
    const found = readState(JSON.stringify({ ...state, [name]: part }));
    expect(found.state).toEqual({ ...state, ...expected });
    expect(found.damage).toEqual([expect.stringMatching(`^${name}: `) as string]);
  });

  test('and a later format loses its phase, not what can be understood', () => {
    const found = readState(JSON.stringify({ ...state, format: 2 }));
    expect(found.state).toEqual({ ...state, phase: { kind: 'lost', was: { kind: 'idle' } } });
  });

  test('any text is understood or lost, never an error, and the format and phase come first for those who read one line', () => {
    const parts = fc.record(
      {
        format: fc.constantFrom(1, 2),
        phase: fc.oneof(fc.constant({ kind: 'idle' }), fc.jsonValue()),
        versions: fc.oneof(fc.constant([banned]), fc.jsonValue()),
        reports: fc.jsonValue(),
        slots: fc.jsonValue(),
        more: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(parts, fc.jsonValue()), (found) => {
        const again = JSON.stringify(readState(JSON.stringify(found)).state);
        expect(again).toMatch(/^\{"format":1,"phase":\{"kind":"[a-z-]+"/);
        expect(readState(again).damage).toEqual([]);
      }),
    );
  });
});

describe('the journal of the next version', () => {
  const { state: found, damage } = readState(ofNextVersion);

  test('has a phase that is lost, and everything else', () => {
    expect(found.phase).toMatchObject({ kind: 'lost', interrupted: { id: 'attempt-9' } });
    expect(damage).toEqual([expect.stringMatching('^phase: ') as string]);
    expect(found.installed).toMatchObject({ version: { name: '1.4.0' }, slot: 'A' });
    expect(blockedIn(found)).toMatchObject([{ digest: 'sha256:bad' }]);
    expect(found.reports).toMatchObject([{ attempt: 'attempt-8' }]);
    expect(found.slots.A.seen).toBeDefined();
  });

  test('keeps what is not understood, for the agent that wrote it', () => {
    const rewritten: unknown = JSON.parse(JSON.stringify(advance(found, { type: 'switched', versionId: 'x' })));
    const original = JSON.parse(ofNextVersion) as Record<string, unknown>;
    expect(rewritten).toMatchObject({ ...original, phase: { kind: 'lost', was: original['phase'] } });
  });

  test('has an attempt that ends, is reported, and counts as failed', () => {
    const next = advance(found, { type: 'recovered', at: 'now' });
    expect(next.phase).toEqual({ kind: 'idle' });
    expect(next.lastOutcome).toMatchObject({ attempt: 'attempt-9', outcome: 'failed', code: 'interrupted' });
    expect(next.versions.at(-1)?.gaveUp).toBe((found.versions.at(-1)?.gaveUp ?? 0) + 1);
  });

  test('continues if the other agent reads the part that this one did not understand', () => {
    const phase = {
      kind: 'staging',
      attempt: { id: 'a', version: { name: 'n' }, by: 'file', startedAt: '' },
      slot: 'B',
    };
    const kept = JSON.stringify({ ...state, phase: { kind: 'lost', was: phase } });
    expect(readState(kept).state.phase).toEqual(phase);
  });
});
