import type { ChildProcess } from 'node:child_process';

import { beforeEach, describe, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../../fakes/machine/file-gateway.ts';
import { versionsOf } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';

/** Its health checks take longer than any test waits. */
const firmware = {
  v0: await artifact('zero', image('healthy 0')),
  unwell: await artifact('unwell', image('unhealthy')),
};

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = versionsOf(firmware);
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'v0', targetVersionId: 'unwell' }));
  gateway = untilTestEnds(await FileGateway.create(options()));
});

function options(): FileGatewayOptions {
  const healthDeadline = '10m';
  return {
    serviceUrl: service.url,
    image: image('healthy 0'),
    slotBytes: 1_000_000,
    trustedKey: releaseKey.publicPem,
    healthDeadline,
  };
}

/** Resolves when the daemon's log contains this text. */
async function daemonThatSays(text: string): Promise<ChildProcess> {
  const said = Promise.withResolvers<void>();
  const daemon = await gateway.startDaemon((line) => line.includes(text) && said.resolve());
  await said.promise;
  return daemon;
}

function lastOutcome(): unknown {
  return service.world.things[0]?.properties.get('update_outcome');
}

describe('while the daemon checks the health of a trial, an operator', () => {
  beforeEach(async () => {
    await gateway.run('--update-now');
    gateway.boot();
    await daemonThatSays('phase=health');
  });

  test('commits it immediately, and a client that followed the trial learns why it ended', async () => {
    const follower = gateway.spawn(['--update-now', '--json']);
    const lines = follower.stdout as AsyncIterable<Buffer>;
    let told = '';
    let commit: ReturnType<typeof gateway.run> | undefined;
    for await (const chunk of lines) {
      told += String(chunk);
      if (told.includes('following')) commit ??= gateway.run('commit');
    }
    expect(await commit).toMatchObject({ exitCode: 0, stdout: matching(/Done: unwell is installed/) });
    expect(told).toContain('"code":"preempted"');
    expect(service.world.things[0]?.currentVersionId).toBe('unwell');
    expect(await gateway.json('status')).toMatchObject({ phase: 'idle', installed: { versionName: 'unwell' } });
    expect(gateway.boot()).toBe('B');
  });

  test('rolls back immediately', async () => {
    expect(await gateway.run('rollback')).toMatchObject({ exitCode: 0, stdout: matching(/unwell was rolled back/) });
    expect(gateway.rebootRequested).toBe(true);
    expect(gateway.boot()).toBe('A');
  });

  test('reboots immediately', async () => {
    expect(await gateway.run('reboot')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(true);
  });

  test('cannot cancel it, and gets the possible decisions instead', async () => {
    expect(await gateway.run('cancel')).toMatchObject({
      exitCode: 77,
      stderr: matching(/agent commit or agent rollback/),
    });
  });
});

describe('agent cancel', () => {
  test('cancels a download until an operator requests the version', async () => {
    service.fail({ operation: 'firmware', fault: { kind: 'silence', afterBytes: 200_000 } });
    const daemon = await daemonThatSays('phase=staging');
    expect(await gateway.run('install', gateway.configFile)).toMatchObject({
      exitCode: 75,
      stderr: matching(/agent\s+cancel/),
    });
    expect(await gateway.run('cancel')).toMatchObject({ exitCode: 0, stdout: 'Cancelled: unwell.\n' });
    expect(await gateway.json('status')).toMatchObject({ phase: 'idle', lastOutcome: { code: 'cancelled' } });
    expect(lastOutcome()).toMatchObject({ outcome: 'failed', code: 'cancelled' });
    await stop(daemon);
    await daemonThatSays('deferred: cancelled by an operator');
    expect(await gateway.run('--update-now', '--no-reboot')).toMatchObject({
      exitCode: 0,
      stdout: matching(/is staged/),
    });
  });

  test('ends the wait for a reboot by hand', async () => {
    await gateway.run('--update-now', '--no-reboot');
    expect(await gateway.run('cancel')).toMatchObject({ exitCode: 0, stdout: 'Cancelled: unwell.\n' });
    expect(gateway.boot()).toBe('A');
  });

  test('learns that there is nothing to cancel', async () => {
    expect(await gateway.run('cancel')).toMatchObject({ exitCode: 0, stdout: 'Nothing to cancel.\n' });
  });
});
