import { describe, expect, test } from 'vitest';

import { firmwareOpener } from '../../../../src/firmware/open-firmware.ts';
import { BootloaderError } from '../../../../src/slots/bootloaders/errors.ts';
import { update } from '../../../../src/update/update.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { buildArtifact } from '../../firmware/artifact/build-artifact.ts';
import type { ArtifactOptions } from '../../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const key = makeKeyPair('ed25519');

async function artifact(name: string, image: string, more: Partial<ArtifactOptions> = {}): Promise<Buffer> {
  const files = [{ name: 'rootfs.img', content: Buffer.from(image) }];
  const built = await buildArtifact({ name, devices: ['a gateway'], key: key.privateKey, files, ...more });
  return Buffer.from(JSON.stringify(built.toString('base64')));
}

const one = await artifact('version 1', 'an image of release one');
const two = await artifact('version 2', 'another image of release two');
const rebuilt = await artifact('version rebuilt', 'an image of release one');
const resealed = await artifact('version 1', 'an image of release one', { devices: ['a gateway', 'another'] });
const raised = await artifact('version 1', 'an image of release one', { provides: { security_version: '7' } });
const firmware = new Map<string, Buffer>([
  ['1 resealed', resealed],
  ['1 raised', raised],
  ['1', one],
  ['1 again', one],
  ['2', two],
  ['2 resealed', await artifact('version 2', 'another image of release two', { devices: ['a gateway', 'another'] })],
  ['rebuilt', rebuilt],
]);

const trust = { keys: [key.trusted], allowUnsigned: false };

/** A plain release by its signed name. */
function plain(id: string): string {
  return id.split(' ')[0] ?? '';
}

function newGateway(complaint: (running: string) => string | undefined = () => undefined): {
  readonly gateway: Gateway;
  readonly service: MemoryService;
} {
  const service = new MemoryService(firmware, '0');
  const versions = service.versions.map(({ id }) => ({ id, name: `version ${plain(id)}` }));
  Object.assign(service, { versions });
  const openFirmware = firmwareOpener({ encoding: 'auto', trust, deviceType: 'a gateway' });
  const gateway = new Gateway({ service, openFirmware, slots: { A: 'the factory', B: '' }, complaint });
  gateway.start();
  return { gateway, service };
}

async function bring(gateway: Gateway, ...versions: readonly string[]): Promise<void> {
  for (const version of versions) {
    gateway.service.target = version;
    expect(await gateway.run()).toEqual({ kind: 'up-to-date', version: `version ${plain(version)}` });
  }
}

// Regression: a signed delta of a blocked release ran in a second trial, since its manifest has another digest.
test('a blocked release stays blocked in another artifact, as a delta of it would be', async () => {
  const { gateway, service } = newGateway((running) => (running.includes('two') ? 'unhealthy' : undefined));
  await bring(gateway, '1');
  const { armed } = gateway.bootloader;
  for (const target of ['2', '2 resealed', '2', '2 resealed']) {
    service.target = target;
    expect(await gateway.run().catch((error: unknown) => error)).toMatchObject({ code: 'quarantined' });
    expect(armed).toHaveLength(2);
  }
  expect(gateway.running).toBe('an image of release one');
});

function written({ power }: Gateway): boolean {
  return power.history.some((step) => step.includes('write block'));
}

describe('an artifact under a new id', () => {
  test('is not transferred if it runs: no write, no reboot, and the service is notified', async () => {
    const { gateway, service } = newGateway();
    await bring(gateway, '1');
    const slotA = gateway.slots.content('A');
    service.target = '1 again';
    gateway.power.restore();
    expect(await gateway.look()).toEqual({ kind: 'installed', version: 'version 1' });
    expect(gateway.slots.content('A')).toBe(slotA);
    expect(gateway.power.history.filter((step) => step.includes('slot'))).toEqual([]);
    expect(await gateway.look()).toEqual({ kind: 'up-to-date', version: 'version 1' });
    expect(service.switches).toEqual(['1', '1 again']);
    expect(service.reports.at(-1)).toMatchObject({ outcome: 'installed', reason: 'it was installed already' });
  });

  test('is not transferred either where it is the same release in another artifact, as a delta of it would be', async () => {
    const { gateway, service } = newGateway();
    await bring(gateway, '1');
    service.target = '1 resealed';
    gateway.power.restore();
    expect(await gateway.look()).toEqual({ kind: 'installed', version: 'version 1' });
    expect(gateway.power.history.filter((step) => step.includes('slot'))).toEqual([]);
    expect(await gateway.look()).toEqual({ kind: 'up-to-date', version: 'version 1' });
    expect(service.switches).toEqual(['1', '1 resealed']);
  });

  test('is another one where it provides something else, though name and image are the same', async () => {
    const { gateway } = newGateway();
    await bring(gateway, '1', '1 raised');
    expect((await gateway.journal()).state.floor).toMatchObject({ securityVersion: 7 });
    expect(gateway.bootloader.armed.map(({ slot }) => slot)).toEqual(['B', 'A']);
  });

  test('is not transferred where the other slot holds it: that is read, and tried', async () => {
    const { gateway } = newGateway();
    await bring(gateway, '1', '2');
    gateway.power.restore();
    await bring(gateway, '1 again');
    expect(written(gateway)).toBe(false);
    expect(gateway.running).toBe('an image of release one');
    expect(gateway.bootloader.armed.map(({ slot }) => slot)).toEqual(['B', 'A', 'B']);
  });

  test('is transferred where the other slot holds something else than it did', async () => {
    const { gateway } = newGateway();
    await bring(gateway, '1', '2');
    gateway.slots.rot('B', 3);
    gateway.power.restore();
    await bring(gateway, '1 again');
    expect(written(gateway)).toBe(true);
    expect(gateway.running).toBe('an image of release one');
  });

  test('with the same image in it is another one, and is tried without being transferred', async () => {
    const { gateway } = newGateway();
    await bring(gateway, '1', '2');
    gateway.power.restore();
    await bring(gateway, 'rebuilt');
    expect(written(gateway)).toBe(false);
    const { installed } = (await gateway.journal()).state;
    expect(installed?.version.id).toBe('rebuilt');
    expect(installed?.provides['rootfs-image.version'] ?? 'rebuilt').toBe('rebuilt');
  });

  test('is still transferred if it is forced', async () => {
    const { gateway, service } = newGateway();
    await bring(gateway, '1');
    gateway.power.restore();
    await gateway.install('1', service.firmware('1'), true);
    expect(written(gateway)).toBe(true);
    expect(gateway.bootloader.armed.map(({ slot }) => slot)).toEqual(['B', 'A']);
  });
});

test('keeps the service’s name of the running version when its file is installed', async () => {
  const { gateway, service } = newGateway();
  await bring(gateway, '1');
  const order = { version: { name: 'a file' }, by: 'file', source: service.firmware('1'), reboot: true, force: false };
  const outcome = await update({ ...order, by: 'file' }, await gateway.ports());
  expect(outcome).toEqual({ kind: 'installed', version: 'version 1' });
  expect((await gateway.journal()).state.installed?.version).toEqual({ id: '1', name: 'version 1' });
  expect(await gateway.look()).toMatchObject({ kind: 'up-to-date' });
});

// Regression: `agent history` named a refused artifact by its file.
test.each([
  ['an old release', { provides: { security_version: '3' } }],
  ['a release for other devices', { devices: ['another'] }],
])('names a refused file by its signed name: %s', async (_, more) => {
  const { gateway } = newGateway();
  await bring(gateway, '1 raised');
  const refused = await artifact('version 3', 'an image', more);
  const source = new MemoryService(new Map([['3', refused]]), '3').firmware('3');
  const order = { version: { name: 'a file' }, by: 'file', source, reboot: true, force: false } as const;
  await expect(update(order, await gateway.ports())).rejects.toMatchObject({ exit: 'refused' });
  expect((await gateway.journal()).state.lastOutcome).toMatchObject({ version: 'version 3', by: 'file' });
});

test('a trial that could not be made is made without another transfer', async () => {
  const { gateway, service } = newGateway();
  const { bootloader } = gateway;
  const arm = bootloader.tryOnce.bind(bootloader);
  bootloader.tryOnce = async (...args) => {
    bootloader.tryOnce = arm;
    await bootloader.markUnbootable(args[0], args[2]);
    throw new BootloaderError('handler-failed', 'it failed');
  };
  service.target = '1';
  await expect(gateway.look()).rejects.toMatchObject({ code: 'handler-failed' });
  gateway.power.restore();
  await bring(gateway, '1');
  expect(written(gateway)).toBe(false);
  expect(gateway.running).toBe('an image of release one');
});
