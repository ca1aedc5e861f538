import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { socketNames } from '../../../src/control/access.ts';
import type { Caller } from '../../../src/control/access.ts';
import { controlClient } from '../../../src/control/client/control-client.ts';
import { operationTable } from '../../../src/control/operations.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import { fakeAgent, fakeFile } from '../cli/fake-operations.ts';
import { controlRig, forever, rawConnection } from './control-rig.ts';
import type { ControlRig } from './control-rig.ts';

const options = { reboot: true, force: true };
const ignore = (): void => {};

function at(rig: ControlRig, caller: Caller): AgentOperations {
  return controlClient(join(rig.runDirectory, socketNames[caller]));
}

const looks: readonly (readonly [string, (agent: AgentOperations) => Promise<unknown>])[] = [
  ['status', (agent) => agent.status({}, forever)],
  ['history', (agent) => agent.history({}, forever)],
  ['boards', (agent) => agent.boards({}, forever)],
  ['queue', (agent) => agent.queue({}, forever)],
  ['sensors', (agent) => agent.sensors({}, forever)],
  ['sendDatapoint', (agent) => agent.sendDatapoint({ event: 'e', value: 1 }, forever)],
  ['sendDatapoints', (agent) => agent.sendDatapoints({ points: [] }, forever)],
  ['property', (agent) => agent.property({ id: 'setpoint' }, forever)],
  ['setProperty', (agent) => agent.setProperty({ id: 'setpoint', value: 1 }, forever)],
];

const operations: readonly (readonly [string, (agent: AgentOperations) => Promise<unknown>])[] = [
  ['check', (agent) => agent.check({}, forever)],
  ['doctor', (agent) => agent.doctor({}, forever)],
  ['inspect', (agent) => agent.inspect({ path: '/a', file: fakeFile() }, forever)],
  ['securityLog', (agent) => agent.securityLog({}, forever)],
  ['activate', (agent) => agent.activate({}, forever)],
  ['reboot', (agent) => agent.reboot({}, forever)],
  ['unblock', (agent) => agent.unblock({ version: 'v1' }, forever)],
  ['hold', (agent) => agent.hold({}, forever)],
  ['resume', (agent) => agent.resume({}, forever)],
  ['property', (agent) => agent.property({ id: 'secret' }, forever)],
  ['setProperty', (agent) => agent.setProperty({ id: 'outcome', value: 'forged' }, forever)],
  ['trySensor', (agent) => agent.trySensor({ name: 'sensors[0]' }, forever)],
  ['syncQueue', (agent) => agent.syncQueue({}, forever)],
  ['probeBoard', (agent) => agent.probeBoard({ board: 'm' }, forever)],
  ['planBoard', (agent) => agent.planBoard({ board: 'm', path: '/a', file: fakeFile() }, forever)],
  ['resetBoard', (agent) => agent.resetBoard({ board: 'm' }, forever)],
  ['update', (agent) => agent.update(options, ignore, forever)],
  ['install', (agent) => agent.install({ path: '/a', file: fakeFile(), ...options }, ignore, forever)],
  ['commit', (agent) => agent.commit({}, ignore, forever)],
  ['rollback', (agent) => agent.rollback(options, ignore, forever)],
  ['cancel', (agent) => agent.cancel({}, ignore, forever)],
  ['flash', (agent) => agent.flash({ board: 'm', path: '/a', file: fakeFile() }, ignore, forever)],
  ['restore', (agent) => agent.restore({ board: 'm' }, ignore, forever)],
];

const refusal = { code: 'control-not-permitted', exit: 'refused' };

test('each operation of the table is requested here', () => {
  const asked = new Set([...looks, ...operations].map(([name]) => name));
  expect([...asked].sort()).toEqual(Object.keys(operationTable).sort());
});

describe('a member of the group', () => {
  test.each(looks)('may ask for %s', async (name, ask) => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    await ask(at(rig, 'members'));
    expect(agent.calls).toMatchObject([[name, {}]]);
  });

  test.each(operations)('may not ask for %s', async (_name, ask) => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    await expect(ask(at(rig, 'members'))).rejects.toMatchObject(refusal);
    expect(agent.calls).toEqual([]);
  });

  test('that holds all available connections leaves the operators’ and root’s', async () => {
    await using rig = await controlRig(fakeAgent(), { maxWaiting: 4, maxAtOnce: 1 });
    const held = Array.from({ length: 40 }, () => rawConnection(join(rig.runDirectory, socketNames.members), 'GET '));
    for (const caller of ['operators', 'root'] as const) {
      expect(await at(rig, caller).status({}, forever)).toMatchObject({ serialNumber: 'GW-0001' });
    }
    for (const { socket } of held) socket.destroy();
  });
});

describe('an operator', () => {
  test.each([...looks, ...operations])('may ask for %s', async (name, ask) => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    await ask(at(rig, 'operators'));
    expect(agent.calls).toMatchObject([[name, {}]]);
  });

  test('may not install an older release; root may', async () => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    const older = { path: '/a', ...options, allowDowngrade: true as const };
    await expect(at(rig, 'operators').install({ ...older, file: fakeFile() }, ignore, forever)).rejects.toMatchObject(
      refusal,
    );
    await at(rig, 'root').install({ ...older, file: fakeFile() }, ignore, forever);
    expect(agent.calls).toEqual([['install', older]]);
  });

  // Regression: with the default configuration an operator installed 1.0.0 over 2.0.0.
  test('has a file checked with the rule against older releases, and root has not', async () => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    for (const caller of ['operators', 'root'] as const) {
      await at(rig, caller).install({ path: '/a', file: fakeFile(), ...options }, ignore, forever);
      await at(rig, caller).flash({ board: 'm', path: '/a', file: fakeFile() }, ignore, forever);
      await at(rig, caller).inspect({ path: '/a', file: fakeFile() }, forever);
    }
    const judged = agent.calls.map(([name, input]) => [name, (input as { allowDowngrade?: boolean }).allowDowngrade]);
    const names = ['install', 'flash', 'inspect'];
    expect(judged).toEqual([...names.map((name) => [name, false]), ...names.map((name) => [name, undefined])]);
  });
});

test('the log shows the user, the request, the file and the force option, and no value', async () => {
  await using rig = await controlRig();
  await at(rig, 'operators').install({ path: '/usb/a.mender', file: fakeFile(), ...options }, ignore, forever);
  await at(rig, 'members').setProperty({ id: 'setpoint', value: 'hidden' }, forever);
  const [install = '', property = ''] = rig.log.lines;
  expect(install).toContain('"caller":"operators","operation":"install","path":"/usb/a.mender","force":true');
  expect(property).toContain('"caller":"members","operation":"setProperty"');
  expect(property).not.toContain('hidden');
});
