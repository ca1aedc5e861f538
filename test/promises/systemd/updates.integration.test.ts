import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import type { NspawnGateway } from '../../stand-ins/machine/booting/nspawn-gateway.ts';
import type { Difference } from '../../stand-ins/machine/booting/slot-images.ts';
import { GatewayRig } from './gateway-rig.ts';

/** Whole updates of a gateway that boots its slots under a systemd of its own. */
const CONFIG = '/etc/thing-agent/config.toml';
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** The safety net of an image that looks as soon as it has booted. */
const hastyGuard: Difference = {
  '/etc/systemd/system/thing-agent-trial.service.d/test.conf': '[Service]\nEnvironment=PATIENCE=1\n',
};
/** Where an agent runs that is slow to start, it would end the trial before that. */
const quickGuard: Difference = {
  ...hastyGuard,
  '/etc/systemd/system/thing-agent-trial.timer.d/test.conf': '[Timer]\nOnBootSec=\nOnBootSec=3s\nAccuracySec=100ms\n',
};
const quickRestart: Difference = {
  '/etc/systemd/system/thing-agent.service.d/test.conf':
    '[Service]\nWatchdogSec=3s\nRestartSec=100ms\nTimeoutStopSec=5s\n',
};
/** Its application is healthy when the test says so. */
const healthyLater: Difference = { '/usr/lib/app/healthy': '#!/bin/sh\ntest -e /boot/healthy\n' };

/** What comes first: on a busy machine the safety net reboots before the target is reached. */
const EMERGENCY = /local-fs\.target: Triggering OnFailure= dependencies|Reached target emergency\.target/;

let rig: GatewayRig;
let gateway: NspawnGateway;

beforeAll(async () => {
  rig = await GatewayRig.open();
});
afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});
afterEach(async () => {
  rig.service.clearFaults();
  await gateway[Symbol.asyncDispose]();
});

/** A technician asks for the version; the gateway is on its way into the trial when this returns. */
async function updateTo(version: string, difference: Difference): Promise<void> {
  await rig.offer(version, difference);
  const update = await gateway.exec(['agent', '--update-now']);
  expect(update).toMatchObject({
    exitCode: 0,
    stdout: matching(/v1 is staged in slot B; the gateway reboots into it now/),
  });
  await gateway.console.until(/the bootloader chose slot B/);
}

async function letItBeHealthy(): Promise<void> {
  await writeFile(join(gateway.bootFolder, 'healthy'), '');
}

async function serviceProperty(name: string): Promise<string> {
  return gateway.tell('systemctl', 'show', '--value', '--property', name, 'thing-agent.service');
}

async function runsVersion(): Promise<string> {
  return gateway.tell('cat', '/etc/app-version');
}

async function stopInOrder(): Promise<void> {
  await gateway.tell('systemctl', 'stop', 'thing-agent.service');
  expect(await serviceProperty('Result')).toBe('success');
  expect(await serviceProperty('ExecMainStatus')).toBe('0');
}

/** It went back, for good, and the service was told why, once. */
async function expectRolledBack(code: string, reason: RegExp): Promise<void> {
  await gateway.console.until(/v1 was rolled back/);
  await gateway.console.until(/v1 is held back/);
  expect(gateway.booted).toBe('A');
  expect(await runsVersion()).toBe('v0');
  expect(rig.reports).toMatchObject([{ version: 'v1', outcome: 'rolled-back', code, reason: matching(reason) }]);
  expect(rig.currentVersion).toBe('v0');
}

async function expectInstalled(): Promise<void> {
  await gateway.console.until(/v1 is installed/);
  expect(gateway.booted).toBe('B');
  expect(await runsVersion()).toBe('v1');
  expect(rig.reports).toMatchObject([{ version: 'v1', outcome: 'installed', code: 'ok' }]);
  expect(rig.currentVersion).toBe('v1');
}

describe('a good firmware', () => {
  test('is booted, judged, kept and reported, and boots from then on', async () => {
    gateway = await rig.gateway();
    await updateTo('v1', hastyGuard);
    await expectInstalled();
    // The safety net finds nothing to do.
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.console.until(/the agent is up/);
    expect(await runsVersion()).toBe('v1');
    expect(gateway.boots).toEqual(['A', 'B', 'B']);
  });

  test('waits for a person who wants to reboot, whatever the safety net looks for', async () => {
    gateway = await rig.gateway({ difference: hastyGuard });
    await rig.offer('v1');
    expect(await gateway.exec(['agent', '--update-now', '--no-reboot'])).toMatchObject({ exitCode: 0 });
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect(await gateway.exec(['agent', 'status'])).toMatchObject({ stdout: matching(/v1/) });
    expect(gateway.boots).toEqual(['A']);
    expect(await gateway.exec(['agent', 'reboot'])).toMatchObject({ exitCode: 0 });
    await expectInstalled();
  });

  test('is staged to the end after the agent was stopped in the middle', async () => {
    gateway = await rig.gateway({ difference: quickRestart });
    await rig.offer('v1');
    rig.service.fail({ operation: 'firmware', times: 'always', fault: { kind: 'silence', afterBytes: 100_000_000 } });
    const technician = gateway.exec(['agent', '--update-now']);
    await gateway.console.until(/staging: slot B/);
    await stopInOrder();
    expect(await technician).toMatchObject({ exitCode: 75 });
    expect((await gateway.updateState()).phase.kind).toBe('staging');
    rig.service.clearFaults();
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await expectInstalled();
    expect(gateway.boots).toEqual(['A', 'B']);
  });

  test('is judged to the end after the agent was stopped, and after it hung', async () => {
    gateway = await rig.gateway();
    await updateTo('v1', { ...quickRestart, ...healthyLater });
    await gateway.console.until(/health phase=health/);
    await stopInOrder();
    expect((await gateway.updateState()).phase.kind).toBe('trial');
    await gateway.tell('systemctl', 'start', 'thing-agent.service');
    await gateway.console.until(/health phase=health/);
    await gateway.tell('sh', '-c', `kill -STOP ${await serviceProperty('MainPID')}`);
    await gateway.console.until(/Watchdog timeout/);
    await gateway.console.until(/health phase=health/);
    await letItBeHealthy();
    await expectInstalled();
    expect(gateway.boots).toEqual(['A', 'B']);
  });

  test('gets another trial after the plug was pulled', async () => {
    gateway = await rig.gateway({ difference: { [CONFIG]: rig.configText({ trials: 2 }) } });
    await updateTo('v1', healthyLater);
    await gateway.console.until(/health phase=health/);
    await gateway.powerOff();
    await letItBeHealthy();
    gateway.powerOn();
    await expectInstalled();
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B']);
  });
});

describe('a bad firmware is rolled back', () => {
  test('when it does not boot, after as many trials as the configuration says', async () => {
    gateway = await rig.gateway({ difference: { [CONFIG]: rig.configText({ trials: 2 }) } });
    await updateTo('v1', { '/usr/sbin/init': undefined, '/usr/lib/systemd/systemd': undefined });
    await expectRolledBack('trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A', 'B', 'A']);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({
      exitCode: 77,
      stdout: matching(/held back/),
    });
  });

  test('when its application is not healthy', async () => {
    gateway = await rig.gateway();
    await updateTo('v1', {
      '/usr/lib/app/healthy': '#!/bin/sh\necho "the application does not answer" >&2\nexit 1\n',
      [CONFIG]: rig.configText({ health: '{ deadline = "3s", commands = [["/usr/lib/app/healthy"]] }' }),
    });
    await expectRolledBack('unhealthy', /the application does not answer/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test('when the agent dies at each judgement', async () => {
    gateway = await rig.gateway();
    await updateTo('v1', { ...quickRestart, ...healthyLater });
    for (let death = 0; death < 3; death += 1) {
      await gateway.console.until(/health phase=health/);
      await gateway.tell('sh', '-c', `kill -KILL ${await serviceProperty('MainPID')}`);
    }
    await expectRolledBack('not-judged', /never found healthy/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  /** Nobody is there to judge: the safety net reboots. */
  test.each<[string, RegExp, (texts: string) => Difference]>([
    ['configuration is broken', /status=78/, (config) => ({ [CONFIG]: `${config}\nschedule = 7\n` })],
    ['runtime is missing', /status=127/, () => ({ '/usr/lib/thing-agent/tree.a/bin/node': undefined })],
    [
      'agent hangs before it is ready',
      /Starting thing-agent.service/,
      () => ({ '/usr/lib/thing-agent/tree.a/agent': '#!/bin/sh\nexec sleep infinity\n' }),
    ],
    ['boot ends in emergency mode', EMERGENCY, () => ({ '/etc/fstab': 'tmpfs /srv tmpfs size=nonsense 0 0\n' })],
  ])('when its %s', async (_, sign, difference) => {
    gateway = await rig.gateway();
    await updateTo('v1', { ...quickGuard, ...difference(rig.configText()) });
    await gateway.console.until(sign);
    await gateway.console.until(/a trial is open that nobody judges \(phase trial\): rebooting/);
    await expectRolledBack('trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });

  test('when its boot ends in emergency mode without state and runtime, by the bootloader’s word alone', async () => {
    gateway = await rig.gateway();
    const unit = '/etc/systemd/system/thing-agent-trial.service.d/test.conf';
    const environment = 'COMMAND_LINE_FILE=/etc/command-line STATE_DIRECTORY=/srv/none PATIENCE=1';
    await updateTo('v1', {
      '/etc/fstab': 'tmpfs /srv tmpfs size=nonsense 0 0\n',
      '/usr/lib/thing-agent/tree.a/bin/node': undefined,
      '/etc/command-line': 'thing.slot=B thing.trial=1\n',
      [unit]: `[Service]\nEnvironment=${environment}\n`,
    });
    await gateway.console.until(EMERGENCY);
    await gateway.console.until(/a trial is open that nobody judges \(the bootloader says so/);
    await expectRolledBack('trial-fell-back', /the agent did not start/);
    expect(gateway.boots).toEqual(['A', 'B', 'A']);
  });
});
