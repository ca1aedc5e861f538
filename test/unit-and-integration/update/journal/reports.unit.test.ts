import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { countDropped, MAX_REPORTS, withEnd } from '../../../../src/update/journal/endings.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Outcome, UpdateState } from '../../../../src/update/journal/state.ts';

const end = { outcome: 'failed', code: 'unhealthy', reason: '', at: '' } as const;

function outcome(attempt: number, version: string): Outcome {
  return { attempt: `a${attempt}`, version, ...end };
}

function withFailure(state: UpdateState, attempt: number, name: string): UpdateState {
  return withEnd(state, { id: `a${attempt}`, version: { name } }, end);
}

function reportsOf(versions: readonly string[]): readonly Outcome[] {
  let state = initialState;
  for (const [index, version] of versions.entries()) state = withFailure(state, index, version);
  return state.reports;
}

describe('reports that wait', () => {
  test('stand for later ones with the same result, if there is no space', () => {
    const reports = reportsOf([...Array.from({ length: MAX_REPORTS }, (_, n) => `v${n}`), 'v7', 'v7']);
    expect(reports).toHaveLength(MAX_REPORTS);
    expect(reports.at(-1)).toMatchObject({ attempt: `a${MAX_REPORTS + 1}`, version: 'v7', count: 2 });
    expect(reports[0]).toEqual(outcome(0, 'v0'));
    expect(countDropped(reports)).toBe(0);
  });

  test('say how many had to go, where none ended the same way', () => {
    const reports = reportsOf(Array.from({ length: MAX_REPORTS + 2 }, (_, n) => `v${n}`));
    expect(reports[0]).toMatchObject({ attempt: 'a2' });
    expect(reports.at(-1)).toMatchObject({ dropped: 1 });
    expect(countDropped(reports)).toBe(2);
  });

  test('account for every attempt, and are never changed while they wait', () => {
    const versions = fc.array(fc.constantFrom('a', 'b', 'c', ...Array.from({ length: 40 }, (_, n) => `v${n}`)), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(versions, (all) => {
        let state = initialState;
        for (const [index, version] of all.entries()) {
          const before = state.reports;
          state = withFailure(state, index, version);
          expect(before).toEqual(expect.arrayContaining(state.reports.slice(0, -1)));
        }
        const { reports } = state;
        expect(reports.length).toBeLessThanOrEqual(MAX_REPORTS);
        const told = reports.reduce((sum, { count = 0 }) => sum + 1 + count, 0);
        expect(told + countDropped(reports)).toBe(all.length);
      }),
    );
  });
});
