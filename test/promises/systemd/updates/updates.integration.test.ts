import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { testInFull } from '../../../in-full.ts';
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

/** Whole updates of a gateway that boots its slots under a systemd of its own; more ends of them are in updates.long. */

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
  test('is judged to the end after the agent was stopped, and after it hung, is kept and reported, and boots from then on', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', { ...hastyGuard, ...quickRestart, ...healthyLater });
    await gateway.console.until(/health phase=health/);
    await stopInOrder(updates);
    expect((await gateway.updateState()).phase.kind).toBe('trial');
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await gateway.console.until(/health phase=health/);
    await gateway.tell('sh', '-c', `kill -STOP ${await updates.serviceProperty('MainPID')}`);
    await gateway.console.until(/Watchdog timeout/);
    await gateway.console.until(/health phase=health/);
    await updates.letItBeHealthy();
    await expectInstalled(updates);
    expect(gateway.boots).toEqual(['A', 'B']);
    // The safety net finds nothing to do.
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.console.until(/the agent is up/);
    expect(await updates.runsVersion()).toBe('v1');
    expect(gateway.boots).toEqual(['A', 'B', 'B']);
  });
});

describe('a bad firmware is rolled back', () => {
  testInFull('when it does not boot, after as many trials as the configuration says', async () => {
    const gateway = await updates.newGateway({ difference: { [CONFIG]: updates.rig.configText({ trials: 2 }) } });
    await updateTo(updates, 'v1', { '/usr/sbin/init': undefined, '/usr/lib/systemd/systemd': undefined });
    await expectRolledBack(updates, 'trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B', 'A']);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({
      exitCode: 77,
      stdout: matching(/held back/),
    });
  });

  test('when its agent hangs before it is ready, and nobody judges', async () => {
    const gateway = await updates.newGateway();
    const hanging = { '/usr/lib/thing-agent/tree.a/agent': '#!/bin/sh\nexec sleep infinity\n' };
    await leaveUnjudged(updates, hanging, /Starting thing-agent.service/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test('when its boot ends in emergency mode without state and runtime, by the bootloader’s word alone', async () => {
    const gateway = await updates.newGateway();
    const unit = '/etc/systemd/system/thing-agent-trial.service.d/test.conf';
    const environment = 'COMMAND_LINE_FILE=/etc/command-line STATE_DIRECTORY=/srv/none PATIENCE=1';
    await updateTo(updates, 'v1', {
      '/etc/fstab': 'tmpfs /srv tmpfs size=nonsense 0 0\n',
      '/usr/lib/thing-agent/tree.a/bin/node': undefined,
      '/etc/command-line': 'thing.slot=B thing.trial=1\n',
      [unit]: `[Service]\nEnvironment=${environment}\n`,
    });
    await gateway.console.until(EMERGENCY);
    await gateway.console.until(/a trial is open that nobody judges \(the bootloader says so/);
    await expectRolledBack(updates, 'trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });
});
