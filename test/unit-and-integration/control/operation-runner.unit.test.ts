import { describe, expect, test } from 'vitest';

import type { OperationEvent, OperationOutcome } from '../../../src/control/events.ts';
import { OperationRunner, type OperationRequest } from '../../../src/control/server/operation-runner.ts';
import { ConductedOperation } from '../cli/fake-operations.ts';

const clock = { monotonicMs: () => 0 };
const forever = new AbortController().signal;
const installed: OperationOutcome = { kind: 'installed', version: 'v1' };

function update(reboot = true, force = false): OperationRequest {
  return { operation: 'update', reboot, force };
}

function begin(request: OperationRequest = update()) {
  const daemon = new AbortController();
  const runner = new OperationRunner(clock, daemon.signal);
  const operation = new ConductedOperation();
  const events: OperationEvent[] = [];
  const end = runner.run(request, operation.run, (event) => events.push(event), forever);
  return { daemon, runner, operation, events, end };
}

test('tells progress and the outcome to who asked', async () => {
  const { runner, operation, events, end } = begin();
  const tell = await operation.begun;
  expect(runner.running).toEqual(update());
  tell({ kind: 'phase', phase: 'staging' });
  operation.end(installed);
  expect(await end).toEqual(installed);
  expect(events).toEqual([{ kind: 'phase', phase: 'staging' }]);
  expect(runner.running).toBeUndefined();
});

test('tells the last received bytes before the end', async () => {
  const { operation, events, end } = begin();
  const tell = await operation.begun;
  for (const receivedBytes of [1, 50, 100]) tell({ kind: 'transfer', receivedBytes, totalBytes: 100 });
  operation.end(installed);
  await end;
  expect(events.at(-1)).toEqual({ kind: 'transfer', receivedBytes: 100, totalBytes: 100 });
});

test('tells who watches what already runs, until he leaves', async () => {
  const { runner, operation, end } = begin();
  const tell = await operation.begun;
  const seen: unknown[] = [];
  const note = (it: unknown): void => void seen.push(it);
  const watch = runner.watch({ onEvent: note, onEnd: note, onFailure: note });
  tell({ kind: 'phase', phase: 'staging' });
  operation.end(installed);
  await end;
  watch[Symbol.dispose]();
  await runner.run(
    update(),
    async () => installed,
    () => {},
    forever,
  );
  expect(seen).toEqual([{ kind: 'phase', phase: 'staging' }, installed]);
});

test('tells an observer of every operation, its progress and its end', async () => {
  const seen: unknown[] = [];
  const runner = new OperationRunner(clock, forever, {
    onEvent: (event) => seen.push(event),
    onEnd: (outcome) => seen.push(outcome),
    onFailure: (error) => seen.push(error),
  });
  const staging = { kind: 'phase', phase: 'staging' } as const;
  const work = async (onEvent: (event: OperationEvent) => void): Promise<OperationOutcome> => {
    onEvent(staging);
    return installed;
  };
  await runner.run(update(), work, () => {}, forever);
  const broken = new Error('broken');
  const failing = runner.run(
    { operation: 'commit' },
    async () => Promise.reject(broken),
    () => {},
    forever,
  );
  await expect(failing).rejects.toBe(broken);
  expect(seen).toEqual([staging, installed, broken]);
});

test('is free for the next after one failed', async () => {
  const { runner, operation, end } = begin();
  operation.fail(new Error('broken'));
  await expect(end).rejects.toThrow('broken');
  expect(
    await runner.run(
      { operation: 'commit' },
      async () => installed,
      () => {},
      forever,
    ),
  ).toEqual(installed);
});

describe('a second client with the same request', () => {
  test('follows from where it stands, and gets the same outcome', async () => {
    const { runner, operation, end } = begin();
    const tell = await operation.begun;
    tell({ kind: 'phase', phase: 'checking' });
    tell({ kind: 'phase', phase: 'staging', detail: 'v1' });
    tell({ kind: 'transfer', receivedBytes: 5, totalBytes: 10 });
    const events: OperationEvent[] = [];
    const second = new ConductedOperation();
    const following = runner.run(update(), second.run, (event) => events.push(event), forever);
    tell({ kind: 'phase', phase: 'verifying' });
    operation.end(installed);
    expect(await following).toEqual(installed);
    expect(await end).toEqual(installed);
    expect(second.begunTimes).toBe(0);
    expect(events).toEqual([
      { kind: 'following', operation: 'update' },
      { kind: 'phase', phase: 'staging', detail: 'v1' },
      { kind: 'transfer', receivedBytes: 5, totalBytes: 10 },
      { kind: 'phase', phase: 'verifying' },
    ]);
  });

  test('gets the same failure', async () => {
    const { runner, operation, end } = begin();
    const following = runner.run(update(), operation.run, () => {}, forever);
    operation.fail(new Error('broken'));
    await expect(following).rejects.toThrow('broken');
    await expect(end).rejects.toThrow('broken');
  });
});

test.each<[string, OperationRequest, OperationRequest, 'follows' | 'is told that the agent is busy']>([
  ['an update during an update', update(), update(), 'follows'],
  ['an update during a forced one', update(true, true), update(), 'follows'],
  ['a forced update during an update', update(), update(true, true), 'is told that the agent is busy'],
  ['an update without reboot during one with', update(), update(false), 'is told that the agent is busy'],
  ['a flash during an update', update(), { operation: 'flash', board: 'm' }, 'is told that the agent is busy'],
  ['a commit during a commit', { operation: 'commit' }, { operation: 'commit' }, 'follows'],
  [
    'another file during an installation',
    { operation: 'install', path: '/a', reboot: true, force: false },
    { operation: 'install', path: '/b', reboot: true, force: false },
    'is told that the agent is busy',
  ],
])('who asks for %s %4$s', async (_name, running, wanted, expected) => {
  const { runner, operation, end } = begin(running);
  await operation.begun;
  const events: OperationEvent[] = [];
  const second = runner.run(wanted, operation.run, (event) => events.push(event), forever);
  operation.end(installed);
  const [result] = await Promise.allSettled([second]);
  await end;
  const told = result.status === 'fulfilled' ? 'follows' : 'is told that the agent is busy';
  expect(told).toBe(expected);
  expect(operation.begunTimes).toBe(1);
  expect(result).toMatchObject(
    expected === 'follows' ? { value: installed } : { reason: { code: 'agent-busy', exit: 'tryAgain' } },
  );
});

// Regression: "another update is running" during the daemon's own cycle, without a hint that the option does not fit.
test.each<[OperationRequest, OperationRequest, RegExp]>([
  [
    update(),
    update(false),
    /^to follow it, run the same command without --no-reboot; or wait until it ends, or cancel it: agent cancel/,
  ],
  [update(false), update(), /^to follow it, run the same command with --no-reboot; or/],
  [update(), update(false, true), /^to follow it, run the same command without --no-reboot and without --force; or/],
  [update(), { operation: 'flash', board: 'm' }, /^wait until it ends/],
])(
  'beside %j who asks for %j is told with which options the running one is followed',
  async (running, wanted, advice) => {
    const { runner, operation, end } = begin(running);
    const refused = runner.run(wanted, operation.run, () => {}, forever);
    await expect(refused).rejects.toMatchObject({ advice: expect.stringMatching(advice) as unknown });
    operation.end(installed);
    await end;
  },
);

// Regression: agent cancel was advised, and could not be done.
test('that is rejected during the health checks learns how to end them', async () => {
  const { runner, operation, end } = begin();
  const tell = await operation.begun;
  tell({ kind: 'phase', phase: 'health' });
  const wanted: OperationRequest = { operation: 'install', path: '/boot/list.mender' };
  const advice = expect.stringMatching(
    /^wait until it ends, or end the trial: agent commit or agent rollback/,
  ) as unknown;
  await expect(runner.run(wanted, operation.run, () => {}, forever)).rejects.toMatchObject({ advice });
  operation.end(installed);
  await end;
});

test('that disconnects stops waiting; the work continues for the others', async () => {
  const { runner, operation, end, events } = begin();
  const tell = await operation.begun;
  const leaving = new AbortController();
  const lost: OperationEvent[] = [];
  const following = runner.run(update(), operation.run, (event) => lost.push(event), leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(following).rejects.toThrow('gone');
  tell({ kind: 'phase', phase: 'verifying' });
  operation.end(installed);
  expect(await end).toEqual(installed);
  expect(operation.aborted).toBeUndefined();
  expect(lost).toEqual([{ kind: 'following', operation: 'update' }]);
  expect(events).toEqual([{ kind: 'phase', phase: 'verifying' }]);
});

test('the work continues without clients, and its failure then causes no harm', async () => {
  const daemon = new AbortController();
  const runner = new OperationRunner(clock, daemon.signal);
  const operation = new ConductedOperation();
  const leaving = new AbortController();
  const only = runner.run(update(), operation.run, () => {}, leaving.signal);
  await operation.begun;
  leaving.abort(new Error('gone'));
  await expect(only).rejects.toThrow('gone');
  expect(runner.running).toEqual(update());
  operation.fail(new Error('broken'));
  await runner[Symbol.asyncDispose]();
  expect(runner.running).toBeUndefined();
});

test('the daemon’s end ends the work, is waited for, and nothing begins after it', async () => {
  const { daemon, runner, operation, end } = begin();
  await operation.begun;
  daemon.abort(new Error('stopping'));
  await runner[Symbol.asyncDispose]();
  expect(operation.aborted).toMatchObject({ message: 'stopping' });
  await expect(end).rejects.toThrow('stopping');
  await expect(runner.run(update(), operation.run, () => {}, forever)).rejects.toThrow('stopping');
});
