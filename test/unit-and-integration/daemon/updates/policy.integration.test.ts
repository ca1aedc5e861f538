import { beforeEach, describe, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent, versionsOf } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const firmware = {
  '1.0.0': await artifact('1.0.0', image('healthy 1')),
  '1.9.0': await artifact('1.9.0', image('healthy 9')),
  '1.10.0': await artifact('1.10.0', image('healthy 10')),
  nightly: await artifact('nightly', image('healthy s')),
  bad: await artifact('bad', image('unhealthy')),
  foreign: await artifact('foreign', image('healthy f'), makeKeyPair('ecdsa-p256', 'stranger.pem').privateKey),
};

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = versionsOf(firmware);
  const updates = { '1.0.0': ['1.9.0', '1.10.0', 'nightly'] };
  service = untilTestEnds(await startStandIn({ versions, updates, currentVersionId: '1.0.0' }));
  gateway = untilTestEnds(await FileGateway.create(options()));
});

function options(updateToml = ''): FileGatewayOptions {
  const { url: serviceUrl } = service;
  return { serviceUrl, image: image('healthy 0'), slotBytes: 2_000_000, trustedKey: releaseKey.publicPem, updateToml };
}

async function update(...more: readonly string[]): Promise<unknown> {
  const first = await gateway.json('--update-now', ...more);
  if (!gateway.rebootRequested) return first;
  gateway.boot();
  return update(...more);
}

const installed = (version: string): object => ({ kind: 'result', outcome: { kind: 'installed', version } });
const held = (code: string): object => ({
  kind: 'result',
  outcome: expect.objectContaining({ kind: 'deferred', code }) as unknown,
});

describe('follow = "updates"', () => {
  test('installs the current version first, then the chosen one of its successors', async () => {
    await gateway.configure(options('follow = "updates"\nselect = "/none/"'));
    expect(await update()).toEqual(installed('1.0.0'));
    expect(service.callsOf('updates')).toHaveLength(1);
    const chosen: unknown[] = [];
    for (const choose of ['last', 'first', '/^1\\\\.9/', '/^night/', '/none/', 'newest']) {
      await gateway.configure(options(`follow = "updates"\nselect = "${choose}"`));
      const { plan, offered } = (await gateway.json('check')) as { plan: string; offered?: { id: string } };
      chosen.push(offered?.id ?? plan);
    }
    expect(chosen).toEqual(['nightly', '1.9.0', '1.9.0', 'nightly', 'nothing-offered', '1.10.0']);
    expect(await update()).toEqual(installed('1.10.0'));
    expect(service.world.things[0]?.currentVersionId).toBe('1.10.0');
  });
});

test('follow = "none" requests no version, and installs the one that an operator names', async () => {
  await gateway.configure(options('follow = "none"'));
  service.world.targetVersionId = '1.9.0';
  expect(await update()).toMatchObject({ outcome: { kind: 'up-to-date' } });
  expect(service.calls).toEqual([]);
});

/** The full hour that is so far away. */
const hour = (away: number): string => `${String((new Date().getHours() + 24 + away) % 24).padStart(2, '0')}:00`;

test('the reboot window defers the daemon’s reboot, but not a manual one', async () => {
  await gateway.configure(options(`reboot_window = "${hour(2)}-${hour(4)}"`));
  await gateway.startDaemon();
  await expect
    .poll(async () => gateway.json('status'), { interval: 100 })
    .toMatchObject({
      state: 'staged',
      idleCode: 'staged',
      rebootDeferral: { reason: expect.stringContaining('the reboot may begin between') as unknown },
    });
  const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(page).toContain(
    '1.0.0 is staged in slot B and starts in its reboot window. To do wait for the reboot window, or reboot into it now: agent reboot',
  );
  expect(gateway.boot()).toBe('A');
  expect(await gateway.run('reboot')).toMatchObject({ exitCode: 0 });
  expect(gateway.rebootRequested).toBe(true);
  expect(gateway.boot()).toBe('B');
});

describe('the maintenance window', () => {
  test('defers outside, unless it is forced', async () => {
    await gateway.configure(options(`window = "${hour(2)}-${hour(4)}"`));
    expect(await update()).toEqual(held('outside-window'));
    expect(await gateway.run('check')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('(outside-window)') as unknown,
    });
    expect(await gateway.json('check')).toMatchObject({ plan: 'deferred', code: 'outside-window' });
    expect(service.callsOf('firmware')).toHaveLength(0);
    expect(gateway.rebootRequested).toBe(false);
    expect(await update('--force')).toEqual(installed('1.0.0'));
  });

  test('lets through inside', async () => {
    await gateway.configure(options(`window = "${hour(-2)}-${hour(2)}"`));
    expect(await update()).toEqual(installed('1.0.0'));
  });
});

test('tries a rejected release as often as configured, and once more on request', async () => {
  await gateway.configure(options('max_attempts = 2'));
  service.world.targetVersionId = 'foreign';
  expect(await update()).toMatchObject({ kind: 'error', error: { exit: 'refused' } });
  expect(await update()).toMatchObject({ kind: 'error', error: { exit: 'refused' } });
  expect(await update()).toEqual(held('attempts-exhausted'));
  expect(service.callsOf('firmware')).toHaveLength(2);
  expect(await update('--force')).toMatchObject({ kind: 'error', error: { exit: 'refused' } });
  expect(service.callsOf('firmware')).toHaveLength(3);
  service.world.targetVersionId = '1.9.0';
  expect(await update()).toEqual(installed('1.9.0'));
});

test('tries a failed release once under each id, until an operator unblocks it or another one is offered', async () => {
  await update();
  service.world.targetVersionId = 'bad';
  expect(await update()).toEqual(held('quarantined'));
  service.world.addVersion({
    id: 'bad-again',
    firmware: bufferContent(await artifact('bad-again', image('unhealthy'))),
  });
  service.world.targetVersionId = 'bad-again';
  expect(await update()).toEqual(held('quarantined'));
  expect(await gateway.json('status')).toMatchObject({ quarantine: [{ version: 'bad' }, { version: 'bad-again' }] });
  expect(await gateway.json('unblock', 'bad')).toEqual({ unblocked: ['bad'] });
  expect(await gateway.json('status')).toMatchObject({ quarantine: [{ version: 'bad-again' }] });
  expect(await gateway.run('unblock', 'bad')).toMatchObject({ exitCode: 77 });
  service.world.targetVersionId = '1.9.0';
  expect(await update()).toEqual(installed('1.9.0'));
});

// Regression: each process that checked fetched the start of the firmware again.
test.each(['--update-now', 'check'])('a quarantined version costs one small request (agent %s)', async (command) => {
  await update();
  service.world.targetVersionId = 'bad';
  await update();
  const checked = service.nextCall('targetVersion');
  await gateway.startDaemon();
  await checked;
  await expect.poll(async () => gateway.json('status')).not.toHaveProperty('activity'); // its own check has ended
  await gateway.run(command);
  for (let times = 0; times < 3; times += 1) {
    const [calls, bytes] = [service.calls.length, service.trafficBytes];
    await gateway.run(command);
    expect(service.calls.slice(calls).map(({ operation }) => operation)).toEqual(['targetVersion']);
    expect(service.trafficBytes - bytes).toBeLessThan(1_000);
  }
});

test('each attempt ends in one report, with these members and no other', async () => {
  await update();
  service.world.targetVersionId = 'foreign';
  await update();
  const reports = service.callsOf('setProperty').map(({ body }) => JSON.parse(body) as Record<string, unknown>);
  expect(reports.map((report) => Object.keys(report).sort())).toEqual(
    Array.from({ length: 2 }, () => ['at', 'attempt', 'code', 'outcome', 'reason', 'version']),
  );
  expect(reports).toMatchObject([
    { version: '1.0.0', outcome: 'installed', code: 'ok' },
    { version: 'foreign', outcome: 'refused', code: 'signature-invalid' },
  ]);
  expect(new Set(reports.map(({ attempt }) => attempt)).size).toBe(2);
});

test('a gateway with a splay waits for its turn, unless an operator asks', async () => {
  await gateway.configure({ ...options(), splay: '1h' });
  await gateway.startDaemon();
  expect(await gateway.json('status')).toMatchObject({ idleReason: 'no update check since the agent started' });
  expect(service.calls).toEqual([]);
  expect(await gateway.json('--update-now')).toMatchObject({ outcome: { kind: 'rebooting', version: '1.0.0' } });
});
