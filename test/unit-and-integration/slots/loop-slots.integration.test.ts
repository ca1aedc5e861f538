import { mkdtemp, open, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { openDevice } from '../../../src/slots/device-file.ts';
import { findMountedSlot } from '../../../src/slots/mounts.ts';
import type { SlotsDeps } from '../../../src/slots/slots-target.ts';
import { createSlotsTarget } from '../../../src/slots/slots-target.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import type { PayloadWriter, SlotName, WrittenPrefix } from '../../../src/update/ports.ts';
import type { LoopOptions } from './loop-device.ts';
import { LoopDevice, run, TemporaryMount } from './loop-device.ts';
import type { SlotsBench } from './slots-target-contract.ts';
import { slotsTargetContract } from './slots-target-contract.ts';
import { digestOf, never, noise } from './writer-bench.ts';

const MiB = 1024 * 1024;
const GiB = 1024 * MiB;
const world: SlotsDeps = { bootedSlot: async () => 'A', log: silentLog };

async function loopBench(options: LoopOptions): Promise<SlotsBench> {
  const capacityBytes = 2 * MiB + 512;
  await using opening = new AsyncDisposableStack();
  const a = opening.use(await LoopDevice.attach(capacityBytes, options));
  const b = opening.use(await LoopDevice.attach(capacityBytes, options));
  const opened = opening.move();
  return {
    target: createSlotsTarget({ name: 'gateway', slots: { A: a.path, B: b.path } }, world),
    capacityBytes,
    content: async (slot, sizeBytes) => (await readFile((slot === 'A' ? a : b).backingFile)).subarray(0, sizeBytes),
    [Symbol.asyncDispose]: async () => opened.disposeAsync(),
  };
}

slotsTargetContract('loop devices', async () => loopBench({}));
slotsTargetContract('loop devices with direct I/O', async () => loopBench({ directIo: true }));

interface Opening {
  readonly sizeBytes?: number | undefined;
  readonly resumeAt?: WrittenPrefix | undefined;
  readonly world?: SlotsDeps;
}

async function openB(slots: Readonly<Record<SlotName, string>>, opening: Opening = {}): Promise<PayloadWriter> {
  const target = createSlotsTarget({ name: 'gateway', slots }, opening.world ?? world);
  const payload = { fileName: 'rootfs.ext4', target: 'rootfs-image' } as const;
  return target.openSlot('B', { payload, sizeBytes: opening.sizeBytes, resumeAt: opening.resumeAt }, never);
}

describe('a block device is refused', () => {
  test('when it is mounted anywhere, under whatever name', async () => {
    await using a = await LoopDevice.attach(MiB);
    await using b = await LoopDevice.attach(8 * MiB);
    await using links = await temporaryFolder();
    const byLabel = join(links.path, 'rootfs-b');
    await symlink(b.path, byLabel);
    await run('mkfs.ext4', '-q', b.path);
    await using mounted = await TemporaryMount.mount('-o', 'ro', b.path);
    await expect(openB({ A: a.path, B: byLabel })).rejects.toMatchObject({
      code: 'slot-mounted',
      message: `slot B (${byLabel}): is mounted at ${mounted.folder}`,
    });
    // The file behind a mounted loop device is not safer to write to than the device.
    await expect(openB({ A: a.path, B: b.backingFile })).rejects.toMatchObject({ code: 'slot-mounted' });
    expect(await findMountedSlot({ A: a.path, B: b.path })).toBeUndefined();

    const target = createSlotsTarget({ name: 'gateway', slots: { A: a.path, B: b.path } }, world);
    expect(await target.digestOf('B', 8 * MiB, never)).toBe(digestOf(await readFile(b.backingFile)));
  });

  test('if it is the device of /, for any answer of the bootloader', async () => {
    await using a = await LoopDevice.attach(MiB);
    await using b = await LoopDevice.attach(MiB);
    const number = await run('stat', '--format=%Hr:%Lr', b.path);
    await using proc = await temporaryFolder();
    await run('mkdir', join(proc.path, 'self'));
    await writeFile(join(proc.path, 'self/mountinfo'), `1 0 ${number} / / rw - ext4 ${b.path} rw\n`);
    const system = { proc: proc.path, sys: '/sys' };
    expect(await findMountedSlot({ A: a.path, B: b.path }, system)).toBe('B');
    await expect(openB({ A: a.path, B: b.path }, { world: { ...world, system } })).rejects.toMatchObject({
      code: 'slot-booted',
    });
  });

  test('if another program has claimed it, even without a visible mount', async () => {
    await using a = await LoopDevice.attach(MiB);
    await using b = await LoopDevice.attach(MiB);
    const claim = await openDevice(b.path, { write: false, direct: false, exclusive: true });
    await expect(openB({ A: a.path, B: b.path })).rejects.toMatchObject({ code: 'slot-busy', remedy: 'retry' });
    await claim.close();
    await using writer = await openB({ A: a.path, B: b.path });
    await expect(openB({ A: a.path, B: b.path })).rejects.toMatchObject({ code: 'slot-busy' });
    await writer[Symbol.asyncDispose]();
  });

  test('when it is read-only', async () => {
    await using a = await LoopDevice.attach(MiB);
    await using b = await LoopDevice.attach(MiB, { readOnly: true });
    await expect(openB({ A: a.path, B: b.path })).rejects.toMatchObject({ code: 'slot-read-only' });
  });

  test('when both slots are one device', async () => {
    await using b = await LoopDevice.attach(MiB);
    await using links = await temporaryFolder();
    const byLabel = join(links.path, 'rootfs-a');
    await symlink(b.path, byLabel);
    await expect(openB({ A: byLabel, B: b.path })).rejects.toMatchObject({ code: 'slots-identical' });
  });

  test('when it is swapped to', async () => {
    await using a = await LoopDevice.attach(MiB);
    await using b = await LoopDevice.attach(MiB);
    await run('mkswap', b.path);
    await using swap = new AsyncDisposableStack();
    await run('swapon', b.path);
    swap.defer(async () => void (await run('swapoff', b.path)));
    await expect(openB({ A: a.path, B: b.path })).rejects.toMatchObject({
      code: 'slot-busy',
      message: `slot B (${b.path}): is in use as swap`,
    });
  });
});

test('a file on a full disk is reported as such', async () => {
  await using small = await TemporaryMount.mount('-t', 'tmpfs', '-o', 'size=1m', 'tmpfs');
  const slots = { A: join(small.folder, 'a.img'), B: join(small.folder, 'b.img') };
  await writeFile(slots.A, '');
  await writeFile(slots.B, '');
  await truncate(slots.B, 4 * MiB);
  await using writer = await openB(slots);
  await writer.write(noise(3 * MiB));
  await expect(writer.finish(never)).rejects.toMatchObject({ code: 'slot-no-space' });
});

test('positions beyond 2³² bytes are written and read where they belong', async () => {
  await using folder = await temporaryFolder();
  const slots = { A: join(folder.path, 'a.img'), B: join(folder.path, 'b.img') };
  await writeFile(slots.A, '');
  await writeFile(slots.B, '');
  await truncate(slots.B, 5 * GiB);
  const before = 4 * GiB - MiB - 100;
  const image = noise(3 * MiB);
  // Hashing four gigabytes of zeros takes long on a small machine and is not the question here.
  const pretended: SlotsDeps = {
    ...world,
    startHasher: () => ({
      update: async () => {},
      digest: async () => 'sha256:any',
      [Symbol.asyncDispose]: async () => {},
    }),
  };
  const resumeAt = { sizeBytes: before, digest: 'sha256:any' };
  await using writer = await openB(slots, { resumeAt, world: pretended });
  await writer.write(image);
  expect((await writer.finish(never)).sizeBytes).toBe(before + image.byteLength);
  await using file = await open(slots.B);
  const { buffer } = await file.read(Buffer.alloc(image.byteLength), 0, image.byteLength, before);
  expect(digestOf(buffer)).toBe(digestOf(image));
});

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'slots-'));
  return { path, [Symbol.asyncDispose]: async () => rm(path, { recursive: true }) };
}
