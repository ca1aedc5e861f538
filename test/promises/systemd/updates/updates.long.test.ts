import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import type { Difference } from '../../../stand-ins/machine/booting/slot-images.ts';
import {
  CONFIG,
  EMERGENCY,
  expectInstalled,
  leaveUnjudged,
  expectRolledBack,
  hastyGuard,
  healthyLater,
  matching,
  quickRestart,
  stopInOrder,
  UpdatesRig,
  updateTo,
} from './updates-rig.ts';

/** More ends of the updates of updates.integration. */

let updates: UpdatesRig;

beforeAll(async () => {
  updates = await UpdatesRig.open();
});
afterAll(async () => {
  await updates[Symbol.asyncDispose]();
});
afterEach(async () => {
  await updates.removeGateway();
});

describe('a good firmware', () => {
  test('waits for a person who wants to reboot, whatever the safety net looks for', async () => {
    const gateway = await updates.newGateway({ difference: hastyGuard });
    await updates.rig.offer('v1');
    expect(await gateway.exec(['agent', '--update-now', '--no-reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'status'])).toMatchObject({ stdout: matching(/v1/) });
    expect(gateway.boots).toEqual(['A']);
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await expectInstalled(updates);
  });

  test('is staged to the end after the agent was stopped in the middle', async () => {
    const gateway = await updates.newGateway({ difference: quickRestart });
    await updates.rig.offer('v1');
    updates.rig.service.fail({
      operation: 'firmware',
      times: 'always',
      fault: { kind: 'silence', afterBytes: 100_000_000 },
    });
    const technician = gateway.exec(['agent', '--update-now']);
    await gateway.console.until(/staging: slot B/);
    await stopInOrder(updates);
    expect(await technician).toMatchObject({ exitCode: 75 });
    expect((await gateway.updateState()).phase.kind).toBe('staging');
    updates.rig.service.clearFaults();
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await expectInstalled(updates);
    expect(gateway.boots).toEqual(['A', 'B']);
  });

  test('gets another trial after the plug was pulled', async () => {
    const gateway = await updates.newGateway({ difference: { [CONFIG]: updates.rig.configText({ trials: 2 }) } });
    await updateTo(updates, 'v1', healthyLater);
    await gateway.console.until(/health phase=health/);
    await gateway.powerOff();
    await updates.letItBeHealthy();
    gateway.powerOn();
    await expectInstalled(updates);
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B']);
  });
});

describe('a bad firmware is rolled back', () => {
  test('when its application is not healthy', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', {
      '/usr/lib/app/healthy': '#!/bin/sh\necho "the application does not answer" >&2\nexit 1\n',
      [CONFIG]: updates.rig.configText({ health: '{ deadline = "3s", commands = [["/usr/lib/app/healthy"]] }' }),
    });
    await expectRolledBack(updates, 'unhealthy', /the application does not answer/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test('when the agent dies at each judgement', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', { ...quickRestart, ...healthyLater });
    for (let death = 0; death < 3; death += 1) {
      await gateway.console.until(/health phase=health/);
      await gateway.tell('sh', '-c', `kill -KILL ${await updates.serviceProperty('MainPID')}`);
    }
    await expectRolledBack(updates, 'not-judged', /never found healthy/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test.each<[string, RegExp, (texts: string) => Difference]>([
    ['configuration is broken', /status=78/, (config) => ({ [CONFIG]: `${config}\nschedule = 7\n` })],
    ['runtime is missing', /status=127/, () => ({ '/usr/lib/thing-agent/tree.a/bin/node': undefined })],
    ['boot ends in emergency mode', EMERGENCY, () => ({ '/etc/fstab': 'tmpfs /srv tmpfs size=nonsense 0 0\n' })],
  ])('when its %s, and nobody judges', async (_, sign, difference) => {
    const gateway = await updates.newGateway();
    await leaveUnjudged(updates, difference(updates.rig.configText()), sign);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });
});
