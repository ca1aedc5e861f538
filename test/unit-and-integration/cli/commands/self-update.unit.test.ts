import { describe, expect, test } from 'vitest';

import { InterruptedError } from '../../../../src/cli/interruption.ts';
import { ControlError, ReportedFailure } from '../../../../src/control/control-errors.ts';
import type { OnEvent } from '../../../../src/control/events.ts';
import type { HistoryReport } from '../../../../src/control/history.ts';
import type { AgentOperations } from '../../../../src/control/operations.ts';
import type { ProgressPhase } from '../../../../src/control/reports.ts';
import { stoppedClock, type } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

type Attempt = HistoryReport['attempts'][number];

/** The reply to one request: none, an error, or an agent with these attempts. */
type Met = undefined | Error | readonly Attempt[];

const earlier: Attempt = { attempt: 'a1', version: 'v1', by: 'service', outcome: 'installed', code: 'ok', steps: [] };
const underWay: Attempt = { attempt: 'a2', version: 'v2', by: 'service', inProgress: true, steps: [] };
const kept: Attempt = { attempt: 'a2', version: 'v2', by: 'service', outcome: 'installed', code: 'ok', steps: [] };
const back: Attempt = { ...kept, outcome: 'rolled-back', code: 'unhealthy', reason: 'the pump does not answer' };

const lost = new ControlError('daemon-lost', 'the daemon went away: its reply ended early');
const stopping = new ReportedFailure({ code: 'agent-stopping', message: 'the daemon is stopping', exit: 'tryAgain' });

interface Played {
  readonly command?: string;
  /** How the old agent goes. */
  readonly ends?: Error;
  /** The last things that it tells. */
  readonly step?: string;
  readonly phase?: ProgressPhase;
  /** Replies to later requests, in order; the last one repeats. */
  readonly meets?: readonly Met[];
  /** Attempts of the old agent. */
  readonly before?: readonly Attempt[];
  /** True if Ctrl-C interrupts the wait for the new agent. */
  readonly interrupts?: boolean;
}

/** Plays a command through a daemon that goes away in the middle. */
async function play({
  command = '--update-now',
  ends = lost,
  step = 'installing',
  phase,
  meets = [],
  before = [earlier, underWay],
  interrupts = false,
}: Played) {
  let slept = 0;
  let isGone = false;
  const left = [...meets];
  const ending = new AbortController();
  const begin = async (_input: object, onEvent: OnEvent): Promise<never> => {
    onEvent({ kind: 'phase', phase: 'flashing', detail: 'agent' });
    onEvent({ kind: 'board', board: 'agent', step, doneBytes: 0, totalBytes: 0 });
    if (phase !== undefined) onEvent({ kind: 'phase', phase });
    isGone = true;
    throw ends;
  };
  const old = fakeAgent({
    update: begin,
    install: begin,
    rollback: begin,
    history: async () => ({ attempts: before, discarded: 0 }),
  });
  const connect = async (): Promise<AgentOperations | undefined> => {
    if (!isGone) return old;
    const met = left.length > 1 ? left.shift() : left[0];
    if (met === undefined || met instanceof Error) {
      if (met !== undefined) throw met;
      return undefined;
    }
    return fakeAgent({ history: async () => ({ attempts: met, discarded: 0 }) });
  };
  const clock = {
    ...stoppedClock,
    monotonicMs: () => slept,
    sleep: async (ms: number): Promise<void> => {
      if (interrupts) ending.abort(new InterruptedError('SIGINT'));
      ending.signal.throwIfAborted();
      slept += ms;
    },
  };
  const told = await type(command.split(' '), { connect, clock, signal: ending.signal });
  return { ...told, minutes: Math.round(slept / 60_000) };
}

const silent = new ControlError('daemon-unresponsive', 'the daemon does not answer');
const strange = new ControlError('daemon-reply-invalid', 'the daemon cannot be understood');

// Regression: agent install of the agent's own package ended with 75 (agent-stopping, or daemon-lost), though it was installed.
describe('a command that exchanges the agent beneath it', () => {
  test.each(['--update-now', 'install agent.mender', 'rollback'])(
    'agent %s waits for the new agent, and prints the result of its attempt',
    async (command) => {
      const meets = [
        undefined,
        undefined,
        silent,
        strange,
        [earlier, underWay],
        lost,
        [earlier, underWay],
        [earlier, kept],
      ];
      const { exitCode, out, err } = await play({ command, meets });
      expect(out).toBe('Done: v2 is installed.\n');
      expect(exitCode).toBe(0);
      expect(err).toContain('the agent itself is being upgraded; waiting for the new version\n');
    },
  );

  test.each([stopping, silent])('also where the old agent goes with $code', async (ends) => {
    const { exitCode, out } = await play({ ends, meets: [undefined, [earlier, kept]] });
    expect([exitCode, out]).toEqual([0, 'Done: v2 is installed.\n']);
  });

  test('reports that it was restored, and the reason', async () => {
    const { exitCode, out } = await play({ meets: [undefined, [earlier, underWay], undefined, [earlier, back]] });
    expect([exitCode, out]).toEqual([70, 'v2 was rolled back: the pump does not answer\n']);
  });

  test('tells a program the same', async () => {
    const { exitCode, out } = await play({ command: '--update-now --json', meets: [[earlier, kept]] });
    expect(exitCode).toBe(0);
    expect(out.trim().split('\n').at(-1)).toBe('{"kind":"result","outcome":{"kind":"installed","version":"v2"}}');
  });

  test('fails with the code of an attempt that failed', async () => {
    const failed: Attempt = { ...kept, outcome: 'failed', code: 'package-not-restored', reason: 'dpkg ended with 2' };
    const { exitCode, err } = await play({ meets: [[earlier, failed]] });
    expect(exitCode).toBe(70);
    expect(err).toContain('agent: v2: dpkg ended with 2 (package-not-restored)\n       agent log\n');
  });

  test('does not take the end of an earlier attempt for its own', async () => {
    const lostIt: Attempt = { attempt: 'a2', version: 'v2', steps: [] };
    const { exitCode, out } = await play({ meets: [[earlier], [earlier, lostIt], [earlier, kept]] });
    expect([exitCode, out]).toEqual([0, 'Done: v2 is installed.\n']);
  });

  test('does not take the end of a later attempt for its own', async () => {
    const later: Attempt = { ...kept, attempt: 'a3', version: 'v3' };
    const { exitCode, out } = await play({ meets: [[earlier, back, later]] });
    expect([exitCode, out]).toEqual([70, 'v2 was rolled back: the pump does not answer\n']);
  });

  test('finds its attempt at the new agent if the old one did not report it', async () => {
    const { exitCode, out } = await play({
      before: [earlier],
      meets: [undefined, [earlier, underWay], [earlier, kept]],
    });
    expect([exitCode, out]).toEqual([0, 'Done: v2 is installed.\n']);
  });

  test('counts a rollback that was not committed as a failure, although a rollback was requested', async () => {
    const meets = [[earlier, { ...back, by: 'rollback' }]];
    const { exitCode, err } = await play({ command: 'rollback', step: 'restoring', meets });
    expect(exitCode).toBe(70);
    expect(err).toContain('agent: v2: the pump does not answer (unhealthy)');
  });

  test('counts a manual end of a trial as the requested result', async () => {
    const meets = [[earlier, { ...back, code: 'manual', reason: 'an operator rolled it back' }]];
    const { exitCode, out } = await play({ command: 'rollback', step: 'restoring', meets });
    expect([exitCode, out]).toEqual([0, 'v2 was rolled back: an operator rolled it back\n']);
  });

  test.each([
    ['comes', undefined],
    ['that comes knows', [earlier]],
  ])('stops waiting after an hour if no agent %s', async (_, met) => {
    const { exitCode, err, minutes } = await play({ meets: [met] });
    expect([exitCode, minutes]).toEqual([75, 60]);
    expect(err).toContain('(daemon-lost)');
  });

  test('ends with Ctrl-C while the agent continues', async () => {
    const { exitCode, err } = await play({ interrupts: true });
    expect(exitCode).toBe(130);
    expect(err).toContain('agent: interrupted; the operation continues in the daemon');
  });
});

test.each([
  { step: 'writing', ends: lost },
  { step: 'keeping', ends: stopping },
  { step: 'installing', phase: 'health', ends: lost },
  { step: 'installing', ends: new ReportedFailure({ code: 'package-mismatch', message: 'another', exit: 'refused' }) },
] as const)('a command whose daemon fails otherwise, at $step or later, waits for nobody', async ({ ends, ...at }) => {
  const { exitCode, err, minutes } = await play({ ...at, ends, meets: [[earlier, kept]] });
  expect(exitCode).toBe(ends === lost || ends === stopping ? 75 : 77);
  expect(err).toContain(`(${ends.code})`);
  expect(minutes).toBe(0);
});
