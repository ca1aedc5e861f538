import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect } from 'vitest';

import type { NspawnGateway } from '../../../fakes/machine/booting/nspawn-gateway.ts';
import type { Difference } from '../../../fakes/machine/booting/slot-images.ts';
import { GatewayRig } from '../gateway-rig.ts';
import type { GatewaySetup } from '../gateway-rig.ts';

export const CONFIG = '/etc/thing-agent/config.toml';
export const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** The trial timer of an image that checks as soon as it has booted. */
export const hastyGuard: Difference = {
  '/etc/systemd/system/thing-agent-trial.service.d/test.conf': '[Service]\nEnvironment=PATIENCE=1\n',
};
/** For agents that start slowly: the default would end the trial first. */
export const quickGuard: Difference = {
  ...hastyGuard,
  '/etc/systemd/system/thing-agent-trial.timer.d/test.conf': '[Timer]\nOnBootSec=\nOnBootSec=3s\nAccuracySec=100ms\n',
};
export const quickRestart: Difference = {
  '/etc/systemd/system/thing-agent.service.d/test.conf':
    '[Service]\nWatchdogSec=3s\nRestartSec=100ms\nTimeoutStopSec=5s\n',
};
/** The application is healthy when the test decides. */
export const healthyLater: Difference = { '/usr/lib/app/healthy': '#!/bin/sh\ntest -e /boot/healthy\n' };

/** The first message: on a busy machine the trial timer reboots before the target is reached. */
export const EMERGENCY = /local-fs\.target: Triggering OnFailure= dependencies|Reached target emergency\.target/;

/** Whole updates of one gateway after the other, each of which boots its slots under a systemd of its own. */
export class UpdatesRig implements AsyncDisposable {
  readonly rig: GatewayRig;
  #gateway: NspawnGateway | undefined;

  private constructor(rig: GatewayRig) {
    this.rig = rig;
  }

  static async open(): Promise<UpdatesRig> {
    return new UpdatesRig(await GatewayRig.open());
  }

  /** Replaces the previous gateway. */
  async newGateway(setup: GatewaySetup = {}): Promise<NspawnGateway> {
    await this.removeGateway();
    this.#gateway = await this.rig.gateway(setup);
    return this.#gateway;
  }

  async removeGateway(): Promise<void> {
    this.rig.service.clearFaults();
    await this.#gateway?.[Symbol.asyncDispose]();
    this.#gateway = undefined;
  }

  get gateway(): NspawnGateway {
    if (this.#gateway === undefined) throw new Error('there is no gateway yet');
    return this.#gateway;
  }

  async letItBeHealthy(): Promise<void> {
    await writeFile(join(this.gateway.bootFolder, 'healthy'), '');
  }

  async serviceProperty(name: string): Promise<string> {
    return this.gateway.tell('systemctl', 'show', '--value', '--property', name, 'thing-agent.service');
  }

  async runsVersion(): Promise<string> {
    return this.gateway.tell('cat', '/etc/app-version');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.removeGateway();
    await this.rig[Symbol.asyncDispose]();
  }
}

/** A technician asks for the version; the gateway is on its way into the trial when this returns. */
export async function updateTo(updates: UpdatesRig, version: string, difference: Difference): Promise<void> {
  await updates.rig.offer(version, difference);
  const update = await updates.gateway.exec(['agent', '--update-now']);
  expect(update).toMatchObject({
    exitCode: 0,
    stdout: matching(/v1 is staged in slot B; the gateway is rebooting into it/),
  });
  await updates.gateway.console.until(/the bootloader chose slot B/);
}

export async function stopInOrder(updates: UpdatesRig): Promise<void> {
  await updates.gateway.tell('systemctl', 'stop', 'thing-agent.service');
  expect(await updates.serviceProperty('Result')).toBe('success');
  expect(await updates.serviceProperty('ExecMainStatus')).toBe('0');
}

/** Expects a final rollback, reported once to the service with this code. */
export async function expectRolledBack(updates: UpdatesRig, code: string, reason: RegExp): Promise<void> {
  const { gateway, rig } = updates;
  await gateway.console.until(/v1 was rolled back/);
  await gateway.console.until(/v1 is deferred/);
  expect(gateway.booted).toBe('A');
  expect(await updates.runsVersion()).toBe('v0');
  expect(rig.reports).toMatchObject([{ version: 'v1', outcome: 'rolled-back', code, reason: matching(reason) }]);
  expect(rig.currentVersion).toBe('v0');
}

export async function expectInstalled(updates: UpdatesRig): Promise<void> {
  const { gateway, rig } = updates;
  await gateway.console.until(/v1 is installed/);
  expect(gateway.booted).toBe('B');
  expect(await updates.runsVersion()).toBe('v1');
  expect(rig.reports).toMatchObject([{ version: 'v1', outcome: 'installed', code: 'ok' }]);
  expect(rig.currentVersion).toBe('v1');
}

/** Lets a trial end without health checks: the trial timer reboots. */
export async function leaveUnjudged(updates: UpdatesRig, difference: Difference, sign: RegExp): Promise<void> {
  const { gateway } = updates;
  await updateTo(updates, 'v1', { ...quickGuard, ...difference });
  await gateway.console.until(sign);
  await gateway.console.until(/a trial is open without health checks \(phase trial\): rebooting/);
  await expectRolledBack(updates, 'trial-fell-back', /the agent did not start/);
}
