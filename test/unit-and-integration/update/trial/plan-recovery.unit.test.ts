import { describe, expect, test } from 'vitest';

import { initialState } from '../../../../src/update/journal/state.ts';
import type { Phase, PhaseOf, UpdateState } from '../../../../src/update/journal/state.ts';
import { MAX_JUDGEMENTS, planRecovery } from '../../../../src/update/trial/plan-recovery.ts';
import type { Found, Recovery } from '../../../../src/update/trial/plan-recovery.ts';
import { attempt, firmware, trial as judgedTrial } from './settle-bench.ts';

const staged: Phase = { kind: 'staged', attempt, slot: 'B', firmware, trialsLeft: 2 };
const trial: PhaseOf<'trial'> = { ...judgedTrial, judgements: 0 };
const rollingBack: Phase = {
  kind: 'rolling-back',
  attempt,
  slot: 'B',
  firmware,
  code: 'unhealthy',
  reason: 'no answer',
  fault: 'firmware',
  boards: {},
  restores: 0,
};

const quiet: Found = { booted: 'A', bootId: 'now', onTrial: false, isCommitted: false, lastWord: undefined };

function recoverAt(
  phase: Phase,
  found: Partial<Found> = {},
  more: Partial<UpdateState> = {},
  hasJournal = true,
): Recovery {
  return planRecovery({ ...initialState, ...more, phase }, { ...quiet, ...found }, hasJournal);
}

describe('after a start, with slot B staged or on trial', () => {
  test.each<[string, Phase, 'A' | 'B', string, string]>([
    ['idle keeps whatever runs', { kind: 'idle' }, 'A', 'now', 'keep'],
    ['a lost phase keeps what was committed', { kind: 'lost' }, 'B', 'now', 'keep'],
    ['a staging from the service resumes later', { kind: 'staging', attempt, slot: 'B' }, 'A', 'now', 'keep'],
    [
      'a staging from a file cannot resume',
      { kind: 'staging', attempt: { ...attempt, by: 'file' }, slot: 'B' },
      'A',
      'now',
      'fail-staging',
    ],
    ['a staged slot that does not run is armed', staged, 'A', 'now', 'arm'],
    ['a staged slot that runs was armed before the journal could say so', staged, 'B', 'now', 'health-checks'],
    ['a trial slot that runs is judged', trial, 'B', 'now', 'health-checks'],
    ['a trial whose reboot has not come yet is rebooted', trial, 'A', 'before', 'reboot'],
    ['a trial that did not come up is tried again', trial, 'A', 'now', 'arm'],
    ['a trial without trials left was rolled back', { ...trial, trialsLeft: 0 }, 'A', 'now', 'rolled-back'],
    [
      'a trial that is never judged to an end is left',
      { ...trial, judgements: MAX_JUDGEMENTS },
      'B',
      'now',
      'leave-trial',
    ],
    ['a rollback that has not rebooted yet goes on', rollingBack, 'B', 'now', 'leave-trial'],
    ['a rollback that has rebooted is complete', rollingBack, 'A', 'now', 'rolled-back'],
  ])('%s', (...[, phase, booted, bootId, expected]) => {
    expect(recoverAt(phase, { booted, bootId }).kind).toBe(expected);
  });

  test('a completed rollback keeps the reason why it was begun', () => {
    expect(recoverAt(rollingBack)).toMatchObject({ kind: 'rolled-back', code: 'unhealthy', reason: 'no answer' });
  });
});

describe('if the bootloader reports a trial', () => {
  const onTrial = { booted: 'B', onTrial: true } as const;
  const left = { kind: 'unknown-trial', isKnown: false };
  const seen = { slots: { A: { records: {} }, B: { records: {}, seen: { at: '' } } } };
  const known = { ...firmware, version: { name: 'one' }, at: '', slot: 'B' } as const;

  test.each<[string, Phase, string]>([
    ['staged and armed', staged, 'health-checks'],
    ['on trial', trial, 'health-checks'],
    ['on trial, and approved', { ...trial, approved: true }, 'commit'],
    ['being left', rollingBack, 'leave-trial'],
  ])('a slot that the journal knows to be %s goes its way', (_name, phase, expected) => {
    expect(recoverAt(phase, onTrial).kind).toBe(expected);
  });

  test.each<[string, Phase]>([
    ['idle', { kind: 'idle' }],
    ['busy with the other slot', { ...trial, slot: 'A' }],
    ['staging', { kind: 'staging', attempt, slot: 'A' }],
  ])('it is left if the journal knows nothing of it (%s)', (_name, phase) => {
    expect(recoverAt(phase, onTrial)).toEqual(left);
  });

  test('it is left if there is no journal, whatever else is known', () => {
    expect(recoverAt({ kind: 'idle' }, onTrial, seen, false)).toEqual(left);
    expect(recoverAt({ kind: 'lost' }, onTrial, {}, false)).toEqual(left);
  });

  test.each<[string, Phase, Partial<UpdateState>]>([
    ['the phase is lost', { kind: 'lost' }, {}],
    ['the slot was seen to run', { kind: 'idle' }, seen],
    ['the slot was installed', { kind: 'idle' }, { installed: known }],
    ['the slot was installed before', { kind: 'idle' }, { earlier: [known] }],
  ])('it is kept only if it is healthy, where %s', (_name, phase, more) => {
    expect(recoverAt(phase, onTrial, more)).toEqual({ kind: 'unknown-trial', isKnown: true });
  });
});

describe('where the new slot left a last word', () => {
  test.each<[string, Phase]>([
    ['staged', staged],
    ['on trial, with trials left', trial],
  ])('the old one reports it and does not go on with this attempt (%s)', (_name, phase) => {
    const recovery = recoverAt(phase, { lastWord: 'unhealthy' });
    expect(recovery).toMatchObject({ kind: 'rolled-back', code: 'unhealthy', fault: 'firmware' });
  });

  test.each(['disk-full', 'state-unavailable'])('%s once is not the fault of the firmware', (lastWord) => {
    expect(recoverAt(trial, { lastWord })).toMatchObject({ code: lastWord, fault: 'world' });
  });

  test('it is not yet heard in the boot in which the slot was armed', () => {
    expect(recoverAt({ ...trial, bootId: 'now' }, { lastWord: 'state-unavailable' }).kind).toBe('reboot');
  });
});
