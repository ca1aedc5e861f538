import { describe, expect, test } from 'vitest';

import { MAX_JUDGEMENTS, recover } from '../../../src/update/recover.ts';
import type { Attempt, FirmwareRecord, Phase, PhaseOf } from '../../../src/update/state.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };
const rootfs = { target: 'gateway', kind: 'slots', sizeBytes: 1, digest: 'sha256:r' } as const;
const firmware: FirmwareRecord = { digest: 'sha256:2', provides: {}, payloads: [rootfs] };
const staged: Phase = { kind: 'staged', attempt, slot: 'B', firmware, trialsLeft: 2 };
const trial: PhaseOf<'trial'> = {
  kind: 'trial',
  attempt,
  slot: 'B',
  firmware,
  trialsLeft: 1,
  bootId: 'before',
  rebootByHand: false,
  judgements: 0,
  approved: false,
  boards: {},
};
const rollingBack: Phase = {
  kind: 'rolling-back',
  attempt,
  slot: 'B',
  firmware,
  code: 'unhealthy',
  reason: 'no answer',
  quarantine: true,
  boards: {},
  restores: 0,
};

describe('after a start, with slot B staged or on trial', () => {
  test.each<[string, Phase, 'A' | 'B', string, string]>([
    ['idle keeps whatever runs', { kind: 'idle' }, 'A', 'now', 'keep'],
    ['a lost journal keeps what is healthy', { kind: 'lost' }, 'B', 'now', 'keep-if-healthy'],
    ['a staging from the service goes on', { kind: 'staging', attempt, slot: 'B' }, 'A', 'now', 'resume-staging'],
    [
      'a staging from a file cannot go on',
      { kind: 'staging', attempt: { ...attempt, by: 'file' }, slot: 'B' },
      'A',
      'now',
      'give-up-staging',
    ],
    ['a staged slot that does not run is armed', staged, 'A', 'now', 'arm'],
    ['a staged slot that runs was armed before the journal could say so', staged, 'B', 'now', 'judge'],
    ['a trial slot that runs is judged', trial, 'B', 'now', 'judge'],
    ['a trial whose reboot has not come yet is rebooted', trial, 'A', 'before', 'reboot'],
    ['a trial that a person reboots is waited for', { ...trial, rebootByHand: true }, 'A', 'before', 'await-reboot'],
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
    expect(recover(phase, booted, bootId).kind).toBe(expected);
  });

  test('a completed rollback keeps the reason why it was begun', () => {
    expect(recover(rollingBack, 'A', 'now')).toMatchObject({ code: 'unhealthy', reason: 'no answer' });
  });
});
