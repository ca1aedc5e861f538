import { describe, expect, test } from 'vitest';

import { claimsOf } from '../../../../src/firmware/delta/encode.ts';
import { firmwareOpener } from '../../../../src/firmware/open-firmware.ts';
import type { DeltaClaims } from '../../../../src/update/ports.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { buildArtifact } from '../../firmware/artifact/build-artifact.ts';
import type { ArtifactOptions } from '../../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { deltaOf } from '../../firmware/delta/delta-bench.ts';
import { bring } from '../bring.ts';
import { digestOfPlain } from '../plain-firmware.ts';
import { blockedIn } from '../version-entries.ts';

const key = makeKeyPair('ed25519');
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** Long enough to be of several blocks. */
function rootOf(version: string): string {
  return `the root of version ${version}, ${'and so on '.repeat(6)}`;
}

async function release(id: string, contents: Partial<ArtifactOptions>): Promise<[string, Uint8Array]> {
  const parts = { name: `version ${id}`, devices: ['gw'], key: key.privateKey, files: [], ...contents };
  return [id, Buffer.from(JSON.stringify((await buildArtifact(parts)).toString('base64')))];
}

async function whole(id: string): Promise<[string, Uint8Array]> {
  return release(id, { files: [{ name: 'root.img', content: Buffer.from(rootOf(id)) }] });
}

interface Lie {
  readonly promise?: (true_: DeltaClaims) => DeltaClaims;
  readonly target?: string;
  readonly edit?: ArtifactOptions['edit'];
}

/** Under a name of its own: the same root file system as the whole one. */
async function delta(id: string, from: string, to: string, lie: Lie = {}): Promise<[string, Uint8Array]> {
  const [base, result] = [Buffer.from(rootOf(from)), Buffer.from(rootOf(to))];
  const promise = claimsOf(base, result);
  return release(id, {
    files: [{ name: 'root.delta', content: await deltaOf(base, result) }],
    deltas: { 'root.delta': { target: lie.target ?? 'gateway', ...(lie.promise?.(promise) ?? promise) } },
    edit: lie.edit,
  });
}

const noise = Buffer.alloc(600, 'not what was signed');
const LARGE_BYTES = 1024 * 1024;
const lies = await delta('lies', '1', '2', {
  promise: (promise) => ({ ...promise, result: { ...promise.result, digest: digestOfPlain('another') } }),
});
const releases = new Map([
  await whole('1'),
  await whole('2'),
  await delta('1 to 2', '1', '2'),
  await delta('2 to 3', '2', '3'),
  await delta('0 to 1', '0', '1'),
  await delta('to the meter', '1', '2', { target: 'meter' }),
  await delta('exchanged', '1', '2', { edit: { data: () => [{ name: 'root.delta', content: noise }] } }),
  lies,
  await delta('longer base', '1', '2', {
    promise: (promise) => ({ ...promise, base: { ...promise.base, sizeBytes: 9 } }),
  }),
  await delta('large', '1', '2', {
    edit: { data: () => [{ name: 'root.delta', content: Buffer.alloc(LARGE_BYTES) }] },
  }),
]);

const openFirmware = firmwareOpener({
  encoding: 'auto',
  trust: { keys: [key.trusted], allowUnsigned: false },
  deviceType: 'gw',
});

function gatewayOf(seed = 1): Gateway {
  const service = new MemoryService(releases, 'factory');
  const slots = { A: rootOf('0'), B: '' };
  const gateway = new Gateway({ service, openFirmware, slots, boards: { meter: 'old' }, seed });
  gateway.start();
  return gateway;
}

/** Counts the requested bytes of the text in each transfer. */
function counted(gateway: Gateway): { readonly bytes: () => number } {
  let bytes = 0;
  const { service } = gateway;
  const firmware = service.firmware.bind(service);
  service.firmware = (id) => {
    const source = firmware(id);
    return {
      ...source,
      open: async (from, signal) => {
        const transfer = await source.open(from, signal);
        async function* chunks(): AsyncGenerator<Uint8Array> {
          for await (const chunk of transfer.chunks) {
            bytes += chunk.byteLength;
            yield chunk;
          }
        }
        return { ...transfer, chunks: chunks() };
      },
    };
  };
  return { bytes: () => bytes };
}

describe('a delta', () => {
  test('is rebuilt from the slot that runs, and recorded as what it becomes: the next one builds on it', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1', '1 to 2');
    expect(gateway.running).toBe(rootOf('2'));
    const { slots } = (await gateway.journal()).state;
    expect(slots[gateway.bootloader.booted].records['gateway']).toMatchObject({ digest: digestOfPlain(rootOf('2')) });
    await bring(gateway, '2 to 3');
    expect(gateway.running).toBe(rootOf('3'));
  });

  test('is rebuilt from an image of the factory, which has no record, once it was read', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '0 to 1');
    expect(gateway.running).toBe(rootOf('1'));
  });

  test.each([
    ['another image', async (gateway: Gateway) => bring(gateway, '2')],
    ['an image of the factory that is another one', async () => {}],
  ])('is refused and reported where %s runs, and the whole one installs then', async (_, prepare) => {
    const gateway = gatewayOf();
    await prepare(gateway);
    const before = gateway.slots.content(gateway.bootloader.booted === 'A' ? 'B' : 'A');
    gateway.service.target = 'large';
    const fetched = counted(gateway);
    await expect(gateway.look()).rejects.toMatchObject({ code: 'delta-base-mismatch', exit: 'refused' });
    expect(fetched.bytes()).toBeLessThanOrEqual(64 * 1024); // as the text is decoded
    expect(gateway.slots.content(gateway.bootloader.booted === 'A' ? 'B' : 'A')).toBe(before);
    const { state } = await gateway.journal();
    expect(blockedIn(state)).toEqual([]);
    await bring(gateway, '1', '1 to 2');
    expect(gateway.service.reports).toContainEqual(
      expect.objectContaining({ code: 'delta-base-mismatch', outcome: 'refused' }),
    );
    expect(gateway.running).toBe(rootOf('2'));
  });

  // Regression: only the record was compared; one byte written by a mount cost the other slot, again and again.
  test('is refused before any request or write if the running image has changed', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1');
    gateway.slots.rot('B', 3);
    gateway.service.target = 'large';
    const fetched = counted(gateway);
    await expect(gateway.look()).rejects.toMatchObject({
      code: 'delta-base-mismatch',
      message: matching(/written to since/),
    });
    expect(fetched.bytes()).toBeLessThanOrEqual(64 * 1024);
    expect(gateway.bootloader.bootable).toEqual(['B', 'A']);
    expect(gateway.slots.content('A')).toBe(rootOf('0'));
    await bring(gateway, '2');
    expect(gateway.running).toBe(rootOf('2'));
  });

  test('is refused if the running image changes during the rebuild, and the partial result never boots', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1');
    const { slots } = gateway;
    const openBase = slots.openBase.bind(slots);
    slots.openBase = async (slot) => {
      slots.rot('B', 3);
      return openBase(slot);
    };
    gateway.service.target = '1 to 2';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'delta-base-mismatch' });
    expect(gateway.bootloader.bootable).toEqual(['B']);
    expect((await gateway.journal()).state.slots.A).toEqual({ records: {} });
    await bring(gateway, '2');
    expect(gateway.running).toBe(rootOf('2'));
  });

  test('is refused for a base of another size, although it begins alike', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1');
    gateway.service.target = 'longer base';
    await expect(gateway.look()).rejects.toMatchObject({
      code: 'delta-base-mismatch',
      message: matching(/with 9 bytes, and gate/),
    });
  });

  test.each([
    ['whose file is another one than was signed', 'exchanged', 'delta-malformed'],
    ['that becomes something else than was signed', 'lies', 'delta-base-mismatch'],
  ])('%s is refused, and the partial result never boots', async (_, version, code) => {
    const gateway = gatewayOf();
    await bring(gateway, '1');
    gateway.service.target = version;
    await expect(gateway.look()).rejects.toMatchObject({ code, exit: 'refused' });
    expect(gateway.bootloader.bootable).toEqual(['B']);
    expect((await gateway.journal()).state.slots.A).toEqual({ records: {} });
  });

  test('for a board is refused', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1');
    gateway.service.target = 'to the meter';
    await expect(gateway.look()).rejects.toMatchObject({ code: 'delta-base-mismatch' });
    expect(gateway.boards.get('meter')?.memory.running).toBe('old');
  });

  test('is not transferred where the other slot holds already what it would become', async () => {
    const gateway = gatewayOf();
    await bring(gateway, '1', '2');
    expect(await gateway.goBack()).toMatchObject({ kind: 'rebooting' });
    gateway.start();
    await gateway.settle();
    gateway.power.restore();
    gateway.service.target = '1 to 2';
    await gateway.look();
    expect(gateway.power.history.filter((step) => step.includes('write block'))).toEqual([]);
    gateway.start();
    await bring(gateway, '1 to 2');
    expect(gateway.running).toBe(rootOf('2'));
  });
});

test('a delta that a power cut interrupts anywhere is installed afterwards, and no slot boots in parts', async () => {
  const rehearsal = gatewayOf();
  await bring(rehearsal, '1');
  rehearsal.power.restore();
  await bring(rehearsal, '1 to 2');
  const { steps } = rehearsal.power;
  expect(steps).toBeGreaterThan(20);
  for (let cut = 1; cut <= steps; cut += 1) {
    const gateway = gatewayOf(cut);
    await bring(gateway, '1');
    gateway.service.target = '1 to 2';
    gateway.power.cutAfter(cut);
    await gateway.run().catch(() => undefined);
    gateway.reboot();
    expect([rootOf('1'), rootOf('2')]).toContain(gateway.running);
    await bring(gateway, '1 to 2');
    expect(gateway.running).toBe(rootOf('2'));
  }
});

test('a delta of one window, whose line is lost anywhere, is fetched again from its beginning', async () => {
  const gateway = gatewayOf();
  await bring(gateway, '1');
  const totalBytes = releases.get('1 to 2')?.byteLength ?? 0;
  gateway.service.target = '1 to 2';
  for (let cut = 1000; cut < totalBytes; cut += 1500) {
    gateway.service.cutTransfersAfter = cut;
    await expect(gateway.look(true)).rejects.toMatchObject({ code: 'service-silent' });
    const { phase } = (await gateway.journal()).state;
    expect(phase).toMatchObject({ kind: 'staging' });
    expect(phase.kind === 'staging' && phase.checkpoint).toBe(undefined);
  }
  gateway.service.cutTransfersAfter = undefined;
  await bring(gateway, '1 to 2');
  expect(gateway.running).toBe(rootOf('2'));
});
