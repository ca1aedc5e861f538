import { describe, expect, test } from 'vitest';

import { firmwareOpener } from '../../../src/firmware/open-firmware.ts';
import type { SlotName } from '../../../src/update/ports.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { bring } from './bring.ts';

const key = makeKeyPair('ed25519');
const FACTORY = { root: 'the root of the factory', boot: 'the boot of the factory' };

interface Contents {
  readonly root?: string;
  readonly boot?: string;
}

/** Long enough to be of several blocks. */
function partOf(name: string, version: string): string {
  return `${name} of version ${version}, ${'and so on '.repeat(3)}`;
}

async function release(id: string, parts: readonly (keyof Contents)[], forged = false): Promise<[string, Uint8Array]> {
  const all = { root: 'gateway', boot: 'boot' } as const;
  const artifact = await buildArtifact({
    name: `version ${id}`,
    devices: ['two pairs'],
    key: key.privateKey,
    files: parts.map((part) => ({ name: `${part}.img`, content: Buffer.from(partOf(part, id)) })),
    targets: Object.fromEntries(parts.map((part) => [`${part}.img`, all[part]])),
    edit: forged ? { data: (files) => files.map(({ name }) => ({ name, content: Buffer.from('forged') })) } : {},
  });
  return [id, Buffer.from(JSON.stringify(artifact.toString('base64')))];
}

const releases = new Map([
  await release('1', ['root', 'boot']),
  await release('2', ['boot', 'root']),
  await release('boot 3', ['boot']),
  await release('root 4', ['root']),
  await release('boot 5', ['boot']),
  await release('forged', ['root', 'boot'], true),
]);

const openFirmware = firmwareOpener({
  encoding: 'auto',
  trust: { keys: [key.trusted], allowUnsigned: false },
  deviceType: 'two pairs',
});

function gatewayOfTwoPairs(seed = 1): Gateway {
  const gateway = new Gateway({
    service: new MemoryService(releases, 'factory'),
    openFirmware,
    slots: { A: FACTORY.root, B: '' },
    bootSlots: { A: FACTORY.boot, B: '' },
    seed,
  });
  gateway.start();
  return gateway;
}

/** Content of a slot, by the known releases. */
function held(gateway: Gateway, slot: SlotName): Contents {
  return { root: gateway.slots.content(slot), boot: gateway.bootSlots?.content(slot) ?? '' };
}

const whole = (root: string, boot: string): Contents => ({ root: partOf('root', root), boot: partOf('boot', boot) });

describe('a release for one partition of a slot', () => {
  test('is refused before a byte is written if the other running partition was never verified', async () => {
    const gateway = gatewayOfTwoPairs();
    gateway.service.target = 'boot 3';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'slot-incomplete', exit: 'refused' });
    expect(held(gateway, 'B')).toEqual({ root: '', boot: '' });
    expect((await gateway.journal()).state.slots.B).toEqual({ records: {} });
  });

  test('gets the other partition of the slot that runs', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1', 'boot 3');
    expect(held(gateway, gateway.bootloader.booted)).toEqual(whole('1', 'boot 3'));
    await bring(gateway, 'root 4');
    expect(held(gateway, gateway.bootloader.booted)).toEqual(whole('root 4', 'boot 3'));
  });

  test('is never combined with a rejected one', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1');
    gateway.service.target = 'forged';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'digest-mismatch' });
    expect((await gateway.journal()).state.slots.A).toEqual({ records: {} });
    await bring(gateway, 'boot 3');
    expect(held(gateway, gateway.bootloader.booted)).toEqual(whole('1', 'boot 3'));
  });

  test('is never combined with one older than the running one', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1', '2', 'boot 3');
    expect(held(gateway, gateway.bootloader.booted)).toEqual(whole('2', 'boot 3'));
  });

  test('is refused if the running one changed since it was verified, and the slot is not touched', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1');
    gateway.slots.rot('B', 3);
    gateway.service.target = 'boot 3';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'slot-incomplete' });
    expect(held(gateway, 'A')).toEqual(FACTORY);
    expect(gateway.bootloader.bootable).toContain('A');
  });

  test('is written next to a partition with the same content, which is not copied again', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1', 'boot 3');
    gateway.power.restore();
    gateway.service.target = 'boot 5';
    await gateway.look();
    const blocks = gateway.power.history.filter((step) => step.includes('write block'));
    expect(blocks).toHaveLength(Math.ceil(partOf('boot', 'boot 5').length / 8));
    gateway.start();
    await bring(gateway, 'boot 5');
    expect(held(gateway, 'B')).toEqual(whole('1', 'boot 5'));
  });

  test('gets the other partition copied if that no longer matches its record', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1', 'boot 3');
    gateway.slots.rot('B', 9);
    await bring(gateway, 'boot 5');
    expect(held(gateway, 'B')).toEqual(whole('1', 'boot 5'));
  });

  test('is refused where the partition that was copied is not what it was when it is to be armed', async () => {
    const gateway = gatewayOfTwoPairs();
    await bring(gateway, '1');
    gateway.service.target = 'boot 3';
    const copy = gateway.slots.copyInto.bind(gateway.slots);
    gateway.slots.copyInto = async (writer, slot, sizeBytes) => {
      gateway.slots.rot(slot, 5);
      await copy(writer, slot, sizeBytes);
    };
    await expect(gateway.look()).rejects.toMatchObject({ code: 'slot-incomplete' });
    expect(gateway.bootloader.bootable).toEqual(['B']);
    expect((await gateway.journal()).state.slots.A).toEqual({ records: {} });
  });
});

test('a slot whose version was forgotten is named after the releases of all its partitions', async () => {
  const gateway = gatewayOfTwoPairs();
  await bring(gateway, '1', 'boot 3', '2');
  const journal = '/state/journal.json';
  gateway.fs.put(journal, JSON.stringify({ ...JSON.parse(gateway.fs.read(journal) ?? ''), earlier: [] }));
  gateway.start();
  await gateway.goBack();
  const { phase } = (await gateway.journal()).state;
  expect(phase).toMatchObject({ attempt: { version: { name: 'version 1 and version boot 3' } } });
});

test('a copy that a power cut interrupts anywhere is made again, and no slot boots in parts', async () => {
  const rehearsal = gatewayOfTwoPairs();
  await bring(rehearsal, '1');
  rehearsal.power.restore();
  await bring(rehearsal, 'boot 3');
  for (let cut = 1; cut <= rehearsal.power.steps; cut += 1) {
    const gateway = gatewayOfTwoPairs(cut);
    await bring(gateway, '1');
    gateway.service.target = 'boot 3';
    gateway.power.cutAfter(cut);
    await gateway.run().catch(() => undefined);
    gateway.reboot();
    const running = held(gateway, gateway.bootloader.booted);
    expect([whole('1', '1'), whole('1', 'boot 3')]).toContainEqual(running);
    await bring(gateway, 'boot 3');
    expect(held(gateway, gateway.bootloader.booted)).toEqual(whole('1', 'boot 3'));
  }
});

test('a slot of which one partition has changed since it was staged is not armed after a restart', async () => {
  const gateway = gatewayOfTwoPairs();
  gateway.service.target = '1';
  const { bootloader } = gateway;
  gateway.power.restore();
  const arm = bootloader.tryOnce.bind(bootloader);
  bootloader.tryOnce = async () => gateway.power.fail('before it is armed');
  await expect(gateway.look()).rejects.toThrow('before it is armed');
  bootloader.tryOnce = arm;
  gateway.reboot();
  gateway.bootSlots?.rot('B', 4);
  expect(await gateway.settle()).toEqual({ kind: 'settled' });
  expect(bootloader.bootable).toEqual(['A']);
  const { slots } = (await gateway.journal()).state;
  expect(Object.keys(slots.B.records)).toEqual(['gateway']);
});
