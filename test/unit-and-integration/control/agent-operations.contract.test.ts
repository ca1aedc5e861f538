import { buffer } from 'node:stream/consumers';

import { describe, expect, test } from 'vitest';

import type { OperationEvent, OperationOutcome } from '../../../src/control/events.ts';
import { withCheckedInput } from '../../../src/control/make-operations.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import { AgentError } from '../../../src/system/errors.ts';
import {
  calmStatus,
  ConductedOperation,
  fakeAgent,
  installCheck,
  troubledStatus,
  fakeFile,
} from '../cli/fake-operations.ts';
import { controlRig, forever } from './control-rig.ts';

interface Reached extends AsyncDisposable {
  readonly agent: AgentOperations;
}

const ways: readonly (readonly [string, (behind: AgentOperations) => Promise<Reached>])[] = [
  ['in this process', async (behind) => ({ agent: withCheckedInput(behind), [Symbol.asyncDispose]: async () => {} })],
  [
    'through the control socket',
    async (behind) => {
      const rig = await controlRig(behind);
      return { agent: rig.client, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
    },
  ],
];

const options = { reboot: false, force: true };

describe.each(ways)('the agent’s operations %s', (_name, reach) => {
  test.each([calmStatus, troubledStatus])('give the status as it is (%#)', async (status) => {
    await using reached = await reach(fakeAgent({ status: async () => status }));
    expect(await reached.agent.status({}, forever)).toEqual(status);
  });

  test('give every answer as it is', async () => {
    const findings = [{ name: 'clock', ok: false, detail: 'not set', advice: 'set it' }];
    await using reached = await reach(
      fakeAgent({ doctor: async () => ({ findings }), property: async () => ({ value: [null, { a: 1 }] }) }),
    );
    const { agent } = reached;
    expect(await agent.check({}, forever)).toEqual(installCheck);
    expect(await agent.doctor({}, forever)).toEqual({ findings });
    expect(await agent.activate({}, forever)).toEqual({ serialNumber: 'GW-0001', thingId: 'thing-1' });
    expect(await agent.property({ id: 'a/b ü' }, forever)).toEqual({ value: [null, { a: 1 }] });
    expect(await agent.reboot({}, forever)).toEqual({});
  });

  test('take nothing that their table does not', async () => {
    const behind = fakeAgent();
    await using reached = await reach(behind);
    const { agent } = reached;
    const refused = { code: 'control-request-invalid', exit: 'usage' };
    const long = 'x'.repeat(4097);
    await expect(agent.hold({ reason: long }, forever)).rejects.toMatchObject(refused);
    await expect(agent.hold({ durationMs: -1 }, forever)).rejects.toMatchObject(refused);
    await expect(agent.unblock({ version: '' }, forever)).rejects.toMatchObject(refused);
    const flashing = agent.flash({ board: 'meter', path: 'a.hex', file: fakeFile() }, () => {}, forever);
    await expect(flashing).rejects.toMatchObject(refused);
    for (const odd of ['\u001B[2J', 'a\u0007', 'a\n', '\u202Ea', '\u2066a']) {
      await expect(agent.hold({ reason: odd }, forever)).rejects.toMatchObject(refused);
      await expect(agent.setProperty({ id: odd, value: 1 }, forever)).rejects.toMatchObject(refused);
      await expect(agent.sendDatapoint({ event: odd, value: 1 }, forever)).rejects.toThrow('event: contains control');
    }
    const tooLarge = { code: 'control-request-too-large', exit: 'usage' };
    const huge = { id: 'zz', value: 'ü'.repeat(32 * 1024) };
    await expect(agent.setProperty(huge, forever)).rejects.toMatchObject(tooLarge);
    expect(behind.calls).toEqual([]);
  });

  test('take everything as it was given', async () => {
    const behind = fakeAgent();
    await using reached = await reach(behind);
    const { agent } = reached;
    const file = { board: 'meter', path: '/tmp/a ü.hex' };
    const point = { event: 'temperature', value: -0.5, at: '2026-03-01T14:05:09.000Z' };
    await agent.update(options, () => {}, forever);
    await agent.install({ path: '/media/usb/a ü.mender', file: fakeFile(), ...options }, () => {}, forever);
    await agent.rollback(options, () => {}, forever);
    await agent.commit({}, () => {}, forever);
    await agent.probeBoard({ board: 'meter' }, forever);
    await agent.planBoard({ ...file, file: fakeFile() }, forever);
    await agent.flash({ ...file, file: fakeFile() }, () => {}, forever);
    await agent.restore({ board: 'meter' }, () => {}, forever);
    await agent.resetBoard({ board: 'meter' }, forever);
    await agent.property({ id: 'a/b ü' }, forever);
    await agent.setProperty({ id: 'level', value: { low: [1, null, 'x'] } }, forever);
    await agent.sendDatapoint(point, forever);
    await agent.sendDatapoint({ event: 'temperature', value: 'warm' }, forever);
    await agent.sendDatapoints({ points: [{ ...point, class: 'urgent' }] }, forever);
    await agent.unblock({ version: 'v1' }, forever);
    expect(behind.calls).toEqual([
      ['update', options],
      ['install', { path: '/media/usb/a ü.mender', ...options }],
      ['rollback', options],
      ['commit', {}],
      ['probeBoard', { board: 'meter' }],
      ['planBoard', file],
      ['flash', file],
      ['restore', { board: 'meter' }],
      ['resetBoard', { board: 'meter' }],
      ['property', { id: 'a/b ü' }],
      ['setProperty', { id: 'level', value: { low: [1, null, 'x'] } }],
      ['sendDatapoint', point],
      ['sendDatapoint', { event: 'temperature', value: 'warm' }],
      ['sendDatapoints', { points: [{ ...point, class: 'urgent' }] }],
      ['unblock', { version: 'v1' }],
    ]);
  });

  test.each([0, 1, 3_000_000])('read a file of %i bytes as it is, and its beginning twice', async (sizeBytes) => {
    const content = Buffer.from(Array.from({ length: sizeBytes }, (_, index) => index >>> 4));
    const seen: Buffer[] = [];
    const install: AgentOperations['install'] = async ({ file }, _onEvent, signal) => {
      for (let turn = 0; turn < 2; turn += 1) seen.push(await buffer(file.read(signal)));
      return { kind: 'up-to-date', version: String(file.sizeBytes) };
    };
    await using reached = await reach(fakeAgent({ install }));
    const input = { path: '/a', file: fakeFile(content), ...options };
    expect(await reached.agent.install(input, () => {}, forever)).toMatchObject({ version: String(sizeBytes) });
    expect(seen.map((bytes) => bytes.equals(content))).toEqual([true, true]);
  });

  test.each<OperationOutcome>([
    { kind: 'up-to-date', version: 'v1' },
    { kind: 'deferred', version: 'v1', code: 'outside-window', reason: 'too early' },
    { kind: 'installed', version: 'v1' },
    {
      kind: 'installed',
      version: 't',
      trustList: { number: 1, keys: ['a'], revokedKeys: 0, unknownKeys: 0, revokedReleases: 1 },
    },
    { kind: 'reboot-required', version: 'v1', slot: 'A' },
    { kind: 'rebooting', version: 'v1', slot: 'B' },
    { kind: 'rebooting', version: 'v2', slot: 'A', reason: 'not healthy', goesBack: true },
    { kind: 'rolled-back', version: 'v1', reason: 'not healthy' },
    { kind: 'flashed', version: 'meter-2.hex', board: 'meter' },
  ])('end with the outcome $kind', async (outcome) => {
    await using reached = await reach(fakeAgent({ update: async () => outcome }));
    expect(await reached.agent.update(options, () => {}, forever)).toEqual(outcome);
  });

  test('tell their progress in order', async () => {
    const told: OperationEvent[] = [
      { kind: 'phase', phase: 'checking' },
      { kind: 'phase', phase: 'staging', detail: 'gateway-1.5.0' },
      { kind: 'transfer', receivedBytes: 5, totalBytes: undefined },
      { kind: 'phase', phase: 'verifying' },
      { kind: 'board', board: 'meter', step: 'writing', doneBytes: 1, totalBytes: 2 },
    ];
    const behind = fakeAgent({
      commit: async (_input, onEvent) => {
        told.forEach(onEvent);
        return { kind: 'installed', version: 'v1' };
      },
    });
    await using reached = await reach(behind);
    const events: OperationEvent[] = [];
    await reached.agent.commit({}, (event) => events.push(event), forever);
    expect(events).toEqual(told);
  });

  test.each(['refused', 'tryAgain', 'unreachable', 'disk'] as const)('fail as they fail (%s)', async (exit) => {
    const error = new AgentError({ code: 'some-code', message: 'why', remedy: 'give-up', exit, advice: 'what to do' });
    const fails = (): Promise<never> => Promise.reject(error);
    await using reached = await reach(fakeAgent({ check: fails, update: fails }));
    const failure = { code: 'some-code', message: 'why', exit, advice: 'what to do' };
    await expect(reached.agent.check({}, forever)).rejects.toMatchObject(failure);
    await expect(reached.agent.update(options, () => {}, forever)).rejects.toMatchObject(failure);
  });

  test('stop waiting with the signal’s reason', async () => {
    const operation = new ConductedOperation();
    const behind = fakeAgent({
      update: (_options, onEvent, signal) => operation.run(onEvent, signal),
      check: (_input, signal) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    });
    await using reached = await reach(behind);
    const reason = new Error('enough');
    const controller = new AbortController();
    const updating = reached.agent.update(options, () => {}, controller.signal);
    const checking = reached.agent.check({}, controller.signal);
    await operation.begun;
    controller.abort(reason);
    await expect(updating).rejects.toBe(reason);
    await expect(checking).rejects.toBe(reason);
  });
});
