import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import type { Difference } from '../../../fakes/machine/booting/slot-images.ts';
import { testInFull } from '../../../full-run.ts';
import { howMuch } from '../../../full.ts';
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

/** Whole updates of a gateway that boots its slots under a systemd of its own. */

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
  test('completes its health checks after the agent stopped and after it hung, is committed and reported, and boots from then on', async () => {
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
    // The trial timer finds nothing to do.
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.console.until(/agent started/);
    expect(await updates.runsVersion()).toBe('v1');
    expect(gateway.boots).toEqual(['A', 'B', 'B']);
  });

  testInFull('waits for a manual reboot, without action of the trial timer', async () => {
    const gateway = await updates.newGateway({ difference: hastyGuard });
    await updates.rig.offer('v1');
    expect(await gateway.exec(['agent', '--update-now', '--no-reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'status'])).toMatchObject({ stdout: matching(/v1/) });
    expect(gateway.boots).toEqual(['A']);
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await expectInstalled(updates);
  });

  testInFull('completes staging after the agent was stopped in the middle', async () => {
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

  testInFull('gets another trial after the plug was pulled', async () => {
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

/** Updates whose agent cannot start. */
const unjudged: readonly [string, RegExp, (config: string) => Difference][] = [
  ['configuration is broken', /status=78/, (config) => ({ [CONFIG]: `${config}\nschedule = 7\n` })],
  ['runtime is missing', /status=127/, () => ({ '/usr/lib/thing-agent/tree.a/bin/node': undefined })],
  ['boot ends in emergency mode', EMERGENCY, () => ({ '/etc/fstab': 'tmpfs /srv tmpfs size=nonsense 0 0\n' })],
];

describe('a bad update is rolled back', () => {
  testInFull('when it does not boot, after the configured number of trials', async () => {
    const gateway = await updates.newGateway({ difference: { [CONFIG]: updates.rig.configText({ trials: 2 }) } });
    await updateTo(updates, 'v1', { '/usr/sbin/init': undefined, '/usr/lib/systemd/systemd': undefined });
    await expectRolledBack(updates, 'trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B', 'A']);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({
      exitCode: 77,
      stdout: matching(/deferred/),
    });
  });

  test('when its agent hangs before READY, without health checks', async () => {
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
    await gateway.console.until(/a trial is open without health checks \(by the bootloader/);
    await expectRolledBack(updates, 'trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  testInFull('when its application is not healthy', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', {
      '/usr/lib/app/healthy': '#!/bin/sh\necho "the application does not answer" >&2\nexit 1\n',
      [CONFIG]: updates.rig.configText({ health: '{ deadline = "3s", commands = [["/usr/lib/app/healthy"]] }' }),
    });
    await expectRolledBack(updates, 'unhealthy', /the application does not answer/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  testInFull('when its application crashes in a loop, and is active in between', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', {
      '/etc/systemd/system/app.service':
        '[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c "sleep 3; exit 1"\nRestart=always\nRestartSec=100ms\n',
      '/etc/systemd/system/thing-agent.service.d/app.conf': '[Unit]\nWants=app.service\n',
      [CONFIG]: updates.rig.configText({ health: '{ deadline = "8s", units = ["app.service"] }' }),
    });
    await expectRolledBack(
      updates,
      'unhealthy',
      /app\.service (was active, and was started again within 10 s|is activating)/,
    );
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  testInFull('when the agent dies at each judgement', async () => {
    const gateway = await updates.newGateway();
    await updateTo(updates, 'v1', { ...quickRestart, ...healthyLater });
    for (let death = 0; death < 3; death += 1) {
      await gateway.console.until(/health phase=health/);
      await gateway.tell('sh', '-c', `kill -KILL ${await updates.serviceProperty('MainPID')}`);
    }
    await expectRolledBack(updates, 'health-unknown', /never found healthy/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test.each(howMuch(unjudged, []))('when its %s, without health checks', async (_, sign, difference) => {
    const gateway = await updates.newGateway();
    await leaveUnjudged(updates, difference(updates.rig.configText()), sign);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });
});
