import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

import { beforeEach, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../../fakes/machine/file-gateway.ts';
import { versionsOf } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';

const firmware = {
  good: await artifact('good', image('healthy')),
  bad: await artifact('bad', image('unhealthy')),
};

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = versionsOf(firmware);
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'good' }));
  gateway = untilTestEnds(await FileGateway.create(options()));
});

function options(more: Partial<FileGatewayOptions> = {}): FileGatewayOptions {
  const { url: serviceUrl } = service;
  return { serviceUrl, image: image('healthy 0'), slotBytes: 2_000_000, trustedKey: releaseKey.publicPem, ...more };
}

/** Starts the daemon and waits for this text in its log, this number of times. */
async function daemonThatSays(text: string, times = 1): Promise<ChildProcess> {
  const said = Promise.withResolvers<void>();
  let left = times;
  const daemon = await gateway.startDaemon((line) => {
    if (line.includes(text)) left -= 1;
    if (left === 0) said.resolve();
  });
  await said.promise;
  return daemon;
}

async function reboot(): Promise<void> {
  await gateway.rebootRequest(AbortSignal.timeout(60_000));
  gateway.boot();
}

/** A new daemon completes the good update. */
async function comesToItsEnd(): Promise<void> {
  const daemon = await gateway.startDaemon();
  await reboot();
  await stop(daemon);
  await stop(await daemonThatSays('good is installed'));
  expect(service.world.things[0]?.currentVersionId).toBe('good');
  expect(gateway.imageBeginsWith(gateway.booted, 'healthy\n')).toBe(true);
}

test('SIGTERM ends a transfer in order, and the next start resumes', async () => {
  service.fail({ operation: 'firmware', fault: { kind: 'silence', afterBytes: 100_000 } });
  const daemon = await daemonThatSays('staging: slot B');
  const follower = gateway.spawn(['--update-now']);
  const followed = once(follower, 'exit');
  if (follower.stderr !== null) await once(follower.stderr, 'data');
  expect(await stop(daemon)).toBe(0);
  expect(await followed).toEqual([75, null]);
  await comesToItsEnd();
});

test('SIGTERM ends the wait for a service that is silent, or away', async () => {
  service.fail({ operation: 'targetVersion', fault: { kind: 'silence' } });
  const asked = service.nextCall('targetVersion');
  const daemon = await gateway.startDaemon();
  await asked;
  expect(await stop(daemon)).toBe(0);
  service.fail({ operation: 'targetVersion', times: 99, fault: { kind: 'status', status: 503 } });
  expect(await stop(await daemonThatSays('trying again (2 of'))).toBe(0);
  service.clearFaults();
  await comesToItsEnd();
});

test('SIGTERM ends the health gate without a verdict; the next start judges', async () => {
  await gateway.configure(options({ healthDeadline: '10m' }));
  service.world.targetVersionId = 'bad';
  const daemon = await gateway.startDaemon();
  await reboot();
  await stop(daemon, 'SIGKILL');
  expect(await stop(await daemonThatSays('health'))).toBe(0);
  expect(await gateway.json('status')).toMatchObject({ phase: 'trial', booted: 'B' });
  await gateway.configure(options({ healthDeadline: '1s' }));
  const judge = await gateway.startDaemon();
  await reboot();
  expect(await stop(judge)).toBe(0);
  expect(gateway.booted).toBe('A');
});

test('what the service did not hear of the switch before SIGTERM it hears after the next start', async () => {
  service.fail({ operation: 'switchTo', times: 99, fault: { kind: 'status', status: 503 } });
  const daemon = await gateway.startDaemon();
  await reboot();
  await stop(daemon, 'SIGKILL');
  expect(await stop(await daemonThatSays('trying again (2 of'))).toBe(0);
  expect(await gateway.json('status')).toMatchObject({ phase: 'idle', pendingSwitch: 'good', pendingReports: 1 });
  service.clearFaults();
  await stop(await daemonThatSays('Nothing to do: good is installed'));
  expect(service.callsOf('switchTo').at(-1)?.status).toBe(204);
  expect(await gateway.json('status')).toMatchObject({ pendingReports: 0 });
});
