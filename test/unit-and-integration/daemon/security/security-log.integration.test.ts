import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { controlClient } from '../../../../src/control/client/control-client.ts';
import type { SecurityReport } from '../../../../src/control/security/security-events.ts';
import { artifact, image, releaseKey as keys } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { listArtifact, listBytes } from '../../firmware/trust/lists.ts';

const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');

let service: StandIn;
let gateway: FileGateway;

/** A release of this name, signed with this key. */
async function signed(name: string, key = keys.privateKey): Promise<Buffer> {
  return artifact(name, image(`healthy ${name}`, 100_000), key);
}

beforeEach(async () => {
  const firmware = {
    good: await signed('good'),
    forged: await signed('forged', stranger.privateKey),
    renamed: await signed('of last year'),
  };
  const versions = Object.entries(firmware).map(([id, bytes]) => ({ id, name: id, firmware: bufferContent(bytes) }));
  service = untilTestEnds(await startStandIn({ versions: [{ id: 'v0' }, ...versions], targetVersionId: 'v0' }));
  const options = { serviceUrl: service.url, slotBytes: 200_000, trustedKey: keys.publicPem };
  gateway = untilTestEnds(await FileGateway.create({ ...options, image: image('healthy 0', 10) }));
});

async function events(): Promise<readonly string[]> {
  const report = (await gateway.json('log', '--security')) as SecurityReport;
  return report.events.map(({ id, detail }) => `${id}: ${detail}`);
}

async function configure(change: (text: string) => string): Promise<void> {
  await writeFile(gateway.configFile, change(await readFile(gateway.configFile, 'utf8')));
}

async function offer(id: string): Promise<void> {
  service.world.targetVersionId = id;
  await gateway.run('--update-now');
}

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

test('shows security events in order, also after an update', async () => {
  expect((await gateway.run('log', '--security')).stdout).toContain('No security events');
  await offer('forged');
  await offer('renamed');
  await gateway.run('rollback', '--force');
  await writeFile(join(gateway.directory, 'next.pem'), stranger.publicPem);
  await configure((text) => text.replace('release.pem"', `release.pem", "${gateway.directory}/next.pem"`));
  await offer('good');
  expect(gateway.boot()).toBe('B');
  await gateway.run('--update-now');
  expect((await gateway.run('status')).stdout).toContain('good');
  await gateway.run('activate');
  expect(await events()).toEqual([
    matching(/^activated: as Thing ID /),
    matching(/^signature-rejected: .*\(signature-invalid\)$/),
    matching(/^name-rejected: .*of last year.*\(name-mismatch\)$/),
    'force-used: rollback --force',
    matching(/^configuration-changed: .*config\.toml, now sha256:/),
    matching(/^keys-changed: release\.pem sha256:.*next\.pem sha256:/),
    matching(/^reactivated: as Thing ID /),
  ]);
});

function short({ trusted }: typeof keys): string {
  return trusted.fingerprint.slice('sha256:'.length, 'sha256:'.length + 10);
}

// Regression: new trusted keys were recorded at the next start, perhaps weeks after the list that added them.
test('a trust list is recorded with its number, and the keys that are trusted from then on with it', async () => {
  const revoked = { keys: [keys.trusted.fingerprint], releases: [] };
  const key = { name: 'next.pem', pem: stranger.publicPem };
  const artifact = await listArtifact(listBytes({ number: 7, keys: [key], revoked }), keys.privateKey, {
    devices: ['demo-gateway'],
    name: 'trust-7',
  });
  service.world.addVersion({ id: 'trust-7', firmware: bufferContent(artifact) });
  await offer('trust-7');
  const told = [
    matching(/^activated: /),
    `trust-list-applied: list 7, signed by release.pem ${short(keys)}: ` +
      `revokes the key release.pem ${short(keys)}; adds next.pem ${short(stranger)}`,
    `keys-changed: next.pem ${stranger.trusted.fingerprint}`,
  ];
  expect(await events()).toEqual(told);
  await gateway.run('--update-now');
  expect(await events()).toEqual(told);
});

// Regression: three unsigned and foreign files were rejected while a release was staged, without a record.
test('a file that is rejected while a release waits for its boot is recorded, too', async () => {
  await offer('good');
  const file = join(gateway.directory, 'forged.mender');
  await writeFile(file, await signed('forged', stranger.privateKey));
  expect(await gateway.run('install', file)).toMatchObject({ exitCode: 77 });
  expect(await events()).toEqual([matching(/^activated: /), matching(/^signature-rejected: .*\(signature-invalid\)$/)]);
});

test('records a member’s request without permission, and sends the events to the service as a property', async () => {
  await configure((text) => text.replace('[report]\n', '[report]\nsecurity = "security_events"\n'));
  await gateway.run('activate');
  const daemon = await gateway.startDaemon();
  const member = controlClient(join(gateway.directory, 'run/status.sock'));
  const order = { force: true, reboot: true };
  for (let turn = 0; turn < 3; turn += 1)
    await expect(member.update(order, () => {}, AbortSignal.timeout(60_000))).rejects.toMatchObject({
      code: 'control-not-permitted',
    });
  expect(await events()).toContain('access-denied: members asked for update');
  const denied = { id: 'access-denied', detail: 'members asked for update' };
  await expect
    .poll(() => service.world.things[0]?.properties.get('security_events'), { timeout: 120_000 })
    .toMatchObject({ count: 2, events: [{ id: 'activated' }, denied] });
  expect(await stop(daemon)).toBe(0);
});

test('a log that cannot be read ends no daemon that is to hand it on', async () => {
  await configure((text) => text.replace('[report]\n', '[report]\nsecurity = "security_events"\n'));
  const path = join(gateway.directory, 'state/security.json');
  await mkdir(join(gateway.directory, 'state'));
  await promisify(execFile)('mkfifo', [path]);
  const lines: string[] = [];
  const daemon = await gateway.startDaemon((line) => lines.push(line));
  expect(await gateway.run('status')).toMatchObject({ exitCode: 0 });
  expect(lines.join('\n')).toContain('the security events could not be handed on');
  expect(await gateway.run('log', '--security')).toMatchObject({ exitCode: 74, stderr: matching(/regular\s+file/) });
  expect(await stop(daemon)).toBe(0);
});
