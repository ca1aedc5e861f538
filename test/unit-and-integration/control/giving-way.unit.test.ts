import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { OperationEvent, OperationOutcome } from '../../../src/control/events.ts';
import type { LongOperationName } from '../../../src/control/long-operations.ts';
import { OperationRunner } from '../../../src/control/server/operation-runner.ts';
import type { OperationRequest } from '../../../src/control/server/operation-runner.ts';
import { follow } from '../../../src/control/server/perform.ts';
import { precedence } from '../../../src/control/server/preemption.ts';
import type { OperationProgress, RequestedOperation } from '../../../src/control/server/preemption.ts';
import { rejectEmptyRollback } from '../../../src/daemon/cycles/rounds.ts';
import type { Wiring } from '../../../src/daemon/wiring/wiring.ts';
import { UpdateError } from '../../../src/update/errors.ts';
import { initialState } from '../../../src/update/journal/state.ts';
import type { ProgressPhase } from '../../../src/update/ports/incoming.ts';
import { ConductedOperation, fakeAgent } from '../cli/fake-operations.ts';

const forever = new AbortController().signal;
const clock = { monotonicMs: () => 0 };
const options = { reboot: true, force: false };
const kept: OperationOutcome = { kind: 'installed', version: 'v2' };

const names: readonly LongOperationName[] = ['update', 'install', 'commit', 'rollback', 'cancel', 'flash', 'restore'];
const phases: readonly (ProgressPhase | undefined)[] = [
  undefined,
  'checking',
  'staging',
  'staged',
  'rebooting',
  'health',
  'flashing',
  'committing',
  'rolling-back',
  'switching',
];

function at(phase: OperationProgress['phase'], step?: string): OperationProgress {
  return { phase, step };
}

const update: OperationRequest = { operation: 'update', ...options };

describe('who goes before', () => {
  test.each<[RequestedOperation['operation'], readonly OperationProgress['phase'][]]>([
    // Afterwards there is no trial: a commit that is rejected must not end a download.
    ['commit', [undefined, 'health', 'flashing']],
    ['reboot', [undefined, 'checking', 'health', 'flashing']],
    ['rollback', [undefined, 'checking', 'staging', 'health', 'flashing']],
    ['cancel', [undefined, 'checking', 'staging']],
    ['install', []],
    ['flash', []],
  ])('a person who asks for %s ends an update in exactly these phases: %j', (operation, ended) => {
    const found = phases.filter((phase) => precedence(update, at(phase), { operation }) === 'interrupt');
    expect(found).toEqual(ended);
  });

  test('writing, commits and rollbacks are not ended, nor another operator’s request', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...names),
        fc.constantFrom<RequestedOperation['operation'][]>(...names, 'reboot'),
        fc.constantFrom<ProgressPhase[]>('staged', 'rebooting', 'committing', 'rolling-back', 'switching'),
        (running, wanted, phase) => {
          const found = precedence({ operation: running, path: '/a' }, at(phase, 'writing'), { operation: wanted });
          expect(found).toBe('busy');
        },
      ),
    );
  });

  test('a flash by hand can be cancelled until it writes', () => {
    const flash: OperationRequest = { operation: 'flash', board: 'meter', path: '/a' };
    const ended = ['connecting', 'keeping', 'comparing', 'writing', 'starting', 'done'].filter(
      (step) => precedence(flash, at('flashing', step), { operation: 'cancel' }) === 'interrupt',
    );
    expect(ended).toEqual(['connecting', 'keeping', 'comparing']);
  });
});

function judging() {
  const daemon = new AbortController();
  const failures: unknown[] = [];
  const runner = new OperationRunner(clock, daemon.signal, {
    onEvent: () => {},
    onEnd: () => {},
    onFailure: (error) => failures.push(error),
  });
  const judge = new ConductedOperation();
  const round = runner.run(update, judge.run, () => {}, forever);
  round.catch(() => {}); // each test looks at it in its own time
  return { daemon, failures, runner, judge, round };
}

describe('the judging of a trial', () => {
  test('yields to a commit, which begins when it has ended, and receives its result', async () => {
    const { runner, judge, round, failures } = judging();
    const tell = await judge.begun;
    tell({ kind: 'phase', phase: 'health' });
    const order: string[] = [];
    const ending = round.catch((error: unknown) => (order.push('judging ended'), error));
    const commit = async (_: (event: OperationEvent) => void, signal: AbortSignal, interrupted?: OperationRequest) => {
      order.push(`commit after ${interrupted?.operation}`);
      signal.throwIfAborted();
      return kept;
    };
    expect(await runner.run({ operation: 'commit' }, commit, () => {}, forever)).toEqual(kept);
    expect(await ending).toMatchObject({ code: 'preempted', exit: 'tryAgain', message: /asked for a commit/ });
    expect(order.toSorted()).toEqual(['commit after update', 'judging ended']);
    expect(judge.aborted).toMatchObject({ name: 'PreemptedError' });
    expect(failures).toMatchObject([{ code: 'preempted' }]);
    expect(runner.running).toBeUndefined();
  });

  test('gives way to a reboot', async () => {
    const { runner, judge, round } = judging();
    (await judge.begun)({ kind: 'phase', phase: 'health' });
    await runner.preemptFor({ operation: 'reboot' }, forever);
    expect(runner.running).toBeUndefined();
    await expect(round).rejects.toMatchObject({ code: 'preempted' });
  });

  test('is not ended by a hold, but a check or a download is', async () => {
    const { runner, judge, round } = judging();
    const tell = await judge.begun;
    tell({ kind: 'phase', phase: 'health' });
    await runner.pause(forever);
    expect(runner.running).toMatchObject({ operation: 'update' });
    tell({ kind: 'phase', phase: 'staging' });
    await runner.pause(forever);
    expect(runner.running).toBeUndefined();
    await expect(round).rejects.toMatchObject({ code: 'preempted', message: /asked for a hold/ });
  });

  test('that succeeds at the same moment has succeeded', async () => {
    const runner = new OperationRunner(clock, forever);
    const stubborn = Promise.withResolvers<OperationOutcome>();
    const round = runner.run(
      update,
      async () => stubborn.promise,
      () => {},
      forever,
    );
    const way = runner.preemptFor({ operation: 'reboot' }, forever);
    stubborn.resolve(kept);
    await way;
    expect(await round).toEqual(kept);
  });

  test('yields to one of two concurrent requests; the other one finds that operation running', async () => {
    const { runner, judge } = judging();
    (await judge.begun)({ kind: 'phase', phase: 'health' });
    const commit = new ConductedOperation();
    const first = runner.run({ operation: 'commit' }, commit.run, () => {}, forever);
    const second = runner.run({ operation: 'rollback', ...options }, commit.run, () => {}, forever);
    (await commit.begun)({ kind: 'phase', phase: 'committing' });
    await expect(second).rejects.toMatchObject({ code: 'agent-busy' });
    commit.end(kept);
    expect(await first).toEqual(kept);
    expect(commit.begunTimes).toBe(1);
  });

  test('does not yield to a client that disconnected, and ends no faster than possible', async () => {
    const { runner, judge } = judging();
    (await judge.begun)({ kind: 'phase', phase: 'committing' });
    await expect(runner.run({ operation: 'rollback', ...options }, judge.run, () => {}, forever)).rejects.toMatchObject(
      {
        code: 'agent-busy',
      },
    );
    expect(judge.aborted).toBeUndefined();
  });

  test('cannot be cancelled: the error names the possible decisions', async () => {
    const { runner, judge } = judging();
    (await judge.begun)({ kind: 'phase', phase: 'health' });
    await expect(runner.run({ operation: 'cancel' }, judge.run, () => {}, forever)).rejects.toMatchObject({
      code: 'cannot-cancel',
      exit: 'refused',
      advice: /end the trial: agent commit or agent rollback/,
    });
    expect(judge.aborted).toBeUndefined();
  });
});

// Regression: a rollback without a previous version was rejected, and the running download had been ended for it.
describe('what would be refused all the same', () => {
  const asked = { name: 'rollback', input: { reboot: true, force: false } };

  test('ends nothing', async () => {
    const { runner, judge, round } = judging();
    (await judge.begun)({ kind: 'phase', phase: 'staging' });
    const wanted: OperationRequest[] = [];
    const refuse = async (request: OperationRequest): Promise<void> => {
      wanted.push(request);
      throw new UpdateError('no-previous-version', 'there is nothing');
    };
    const way = follow({ operations: fakeAgent(), runner, refuse }, asked, () => {}, forever);
    await expect(way).rejects.toMatchObject({ code: 'no-previous-version' });
    expect(wanted).toEqual([{ operation: 'rollback', ...options }]);
    expect(judge.aborted).toBeUndefined();
    judge.end(kept);
    expect(await round).toEqual(kept);
  });

  const updater = {} as Wiring['updater'];

  test('is a rollback to a slot that was never seen running', async () => {
    const journal = { state: { ...initialState, phase: { kind: 'idle' } } } as Wiring['journal'];
    const bootloader = { bootedSlot: async () => 'A' } as unknown as Wiring['bootloader'];
    const refused = rejectEmptyRollback({ operation: 'rollback' }, { journal, bootloader, updater }, forever);
    await expect(refused).rejects.toMatchObject({ code: 'no-previous-version', message: /slot B/ });
    await rejectEmptyRollback({ operation: 'cancel' }, { journal, bootloader, updater }, forever);
    const seen = {
      ...initialState,
      slots: { ...initialState.slots, B: { ...initialState.slots.B, seen: { at: '' } } },
    };
    const other = { state: seen } as unknown as Wiring['journal'];
    await rejectEmptyRollback({ operation: 'rollback' }, { journal: other, bootloader, updater }, forever);
  });

  // Regression: a download of a package ended for it.
  test('is a rollback if no update has changed a package', async () => {
    const rollback = { operation: 'rollback' } as const;
    const journalOf = (state: object): Wiring['journal'] => ({ state }) as unknown as Wiring['journal'];
    const fresh = { journal: journalOf(initialState), bootloader: undefined, updater };
    await expect(rejectEmptyRollback(rollback, fresh, forever)).rejects.toMatchObject({
      code: 'no-previous-version',
    });
    const changed = {
      journal: journalOf({ ...initialState, installed: { slot: 'A' }, earlier: [{ slot: 'A' }] }),
      bootloader: undefined,
      updater,
    };
    await rejectEmptyRollback(rollback, changed, forever);
    // where nothing is a target, that is what is wrong
    await rejectEmptyRollback(rollback, { ...fresh, updater: undefined }, forever);
  });
});
