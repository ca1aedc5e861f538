import { describe, expect, test } from 'vitest';

import { stateExitCodes, stateOf, problemsOf } from '../../../src/control/gateway-state.ts';
import type { GatewayState, Problem, ProblemInput } from '../../../src/control/gateway-state.ts';

const calm: ProblemInput = {
  phase: 'idle',
  daemon: true,
  thingId: 'thing-1',
  boards: [{}],
  lastOutcome: { outcome: 'installed' },
  service: { lastError: undefined },
  canUpdate: true,
};

type Case = readonly [
  why: string,
  facts: Partial<ProblemInput>,
  troubles: readonly Problem[],
  state: readonly [GatewayState, exitCode: number],
];

describe('the state of a gateway, in words that stay', () => {
  test.each<Case>([
    ['follows its service', {}, [], ['ok', 0]],
    ['has no daemon: nobody follows the service', { daemon: false }, ['no-daemon'], ['needs-attention', 1]],
    ['has a daemon that systemd starts', { daemon: 'starting' }, ['daemon-starting'], ['busy', 0]],
    ['has a daemon that gives no answer', { daemon: 'unresponsive' }, ['daemon-unresponsive'], ['needs-attention', 1]],
    [
      'has a daemon that gives no answer while it judges',
      { daemon: 'unresponsive', phase: 'trial' },
      ['daemon-unresponsive'],
      ['needs-attention', 1],
    ],
    ['is not activated', { thingId: undefined }, ['not-activated'], ['needs-attention', 1]],
    ['cannot reach its service', { service: { lastError: 'refused' } }, ['service-failing'], ['needs-attention', 1]],
    [
      'has a sensor that fails for a moment',
      { telemetry: { sources: [{ failingForMs: 599_000 }, {}] } },
      [],
      ['ok', 0],
    ],
    [
      'has a sensor that has been failing for ten minutes',
      { telemetry: { sources: [{}, { failingForMs: 600_000 }] } },
      ['sensor-failing'],
      ['needs-attention', 1],
    ],
    ['failed', { lastOutcome: { outcome: 'failed' } }, ['last-attempt-failed'], ['needs-attention', 1]],
    [
      'refused what the service named',
      { lastOutcome: { outcome: 'refused', by: 'service' } },
      ['last-attempt-refused'],
      ['needs-attention', 1],
    ],
    ['refused a file: a person was told', { lastOutcome: { outcome: 'refused', by: 'file' } }, [], ['ok', 0]],
    ['was called off by a person', { lastOutcome: { outcome: 'failed', code: 'cancelled' } }, [], ['ok', 0]],
    ['could not take a file', { lastOutcome: { outcome: 'failed', by: 'file' } }, [], ['ok', 0]],
    [
      'went back',
      { lastOutcome: { outcome: 'rolled-back', by: 'file' } },
      ['last-attempt-rolled-back'],
      ['needs-attention', 1],
    ],
    ['was rolled back by an operator', { lastOutcome: { outcome: 'rolled-back', code: 'manual' } }, [], ['ok', 0]],
    ['has a board that runs nothing', { boards: [{ writing: {} }] }, ['board-half-written'], ['broken', 2]],
    ['cannot be updated', { canUpdate: false, phase: 'staging' }, ['update-impossible'], ['broken', 2]],
    ['forgot what was revoked', { distrust: ['trust-list-damaged'] }, ['trust-list-damaged'], ['broken', 2]],
    ['has no key left', { distrust: ['no-trusted-key'] }, ['no-trusted-key'], ['broken', 2]],
    ['runs what was revoked', { distrust: ['release-revoked'] }, ['release-revoked'], ['needs-attention', 1]],
    ['lost its journal', { phase: 'lost' }, ['journal-lost'], ['broken', 2]],
    ['lost its journal, and continues', { hasForgotten: true }, ['journal-lost'], ['needs-attention', 1]],
    ['was cut off', { phase: 'staging' }, [], ['interrupted', 1]],
    ['waits for a reboot', { phase: 'staged' }, [], ['staged', 1]],
    ['judges', { phase: 'trial' }, [], ['on-trial', 0]],
    ['is on trial without a daemon', { phase: 'trial', daemon: false }, ['no-daemon'], ['needs-attention', 1]],
    ['goes back', { phase: 'rolling-back' }, [], ['rolling-back', 1]],
  ])('%s', (_why, facts, troubles, [state, exitCode]) => {
    const whole = { ...calm, ...facts };
    expect(problemsOf(whole)).toEqual(troubles);
    expect(stateOf({ ...whole, problems: troubles })).toBe(state);
    expect(stateExitCodes[state]).toBe(exitCode);
  });

  test('is busy during an operation, whatever is pending; a trial remains one', () => {
    const activity = { who: 'the daemon' };
    expect(stateOf({ phase: 'idle', activity, problems: ['board-half-written'] })).toBe('busy');
    expect(stateOf({ phase: 'staging', activity, problems: [] })).toBe('busy');
    expect(stateOf({ phase: 'trial', activity, problems: [] })).toBe('on-trial');
  });
});
