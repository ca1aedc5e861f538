import { link, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { createSlotsTarget } from '../../../src/slots/slots-target.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import type { SlotName } from '../../../src/update/ports.ts';
import { FakeSystem } from './fake-system.ts';
import { never } from './writer-bench.ts';

const rootElsewhere = '1 0 8:1 / / rw - ext4 /dev/sda1 rw';

interface Attempt {
  readonly slots: Readonly<Record<SlotName, string>>;
  readonly slot?: SlotName;
  readonly booted?: SlotName;
  /** Slots of other targets. */
  readonly others?: readonly string[];
  readonly sizeBytes?: number;
}

/** Opens a slot; opening a device is a failure of the test. */
async function attempt(
  system: FakeSystem,
  { slots, slot = 'B', booted = 'A', others = [], sizeBytes }: Attempt,
): Promise<unknown> {
  const target = createSlotsTarget(
    { name: 'gateway', slots, others },
    {
      bootedSlot: async () => booted,
      log: silentLog,
      system: system.view,
      openDevice: async () => expect.unreachable('a device was opened'),
    },
  );
  const payload = { fileName: 'rootfs.ext4', target: 'default' } as const;
  return target.openSlot(slot, { payload, sizeBytes, resumeAt: undefined }, never);
}

describe('a slot is refused before it is opened', () => {
  test.each([
    ['A', { A: '/nowhere/a', B: '/dev/null' }],
    ['B', { A: '/dev/null', B: '/nowhere/b' }],
  ] as const)('when slot %s does not exist', async (missing, given) => {
    await using system = await FakeSystem.make(rootElsewhere);
    const existing = await system.file('x.img');
    const slots = { ...given, [missing === 'A' ? 'B' : 'A']: existing };
    await expect(attempt(system, { slots })).rejects.toMatchObject({
      code: 'slot-missing',
      exit: 'disk',
      message: expect.stringContaining(`slot ${missing} (/nowhere/`) as unknown,
    });
  });

  test.each(['/dev/null', '/tmp'])('when it is %s, neither a block device nor a file', async (path) => {
    await using system = await FakeSystem.make(rootElsewhere);
    const slots = { A: await system.file('a.img'), B: path };
    await expect(attempt(system, { slots })).rejects.toMatchObject({
      code: 'slot-wrong-kind',
      message: `slot B (${path}): is neither a block device nor a regular file`,
    });
  });

  test.each([
    ['the same path', async (path: string) => path],
    ['a symbolic link', async (path: string, other: string) => symlink(path, other).then(() => other)],
    ['a hard link', async (path: string, other: string) => link(path, other).then(() => other)],
  ])('when the other slot is %s', async (_, makeOther) => {
    await using system = await FakeSystem.make(rootElsewhere);
    const path = await system.file('b.img');
    const slots = { A: await makeOther(path, join(system.folder, 'a.img')), B: path };
    await expect(attempt(system, { slots })).rejects.toMatchObject({
      code: 'slots-identical',
      message: `slot B (${path}): is the same device as slot A (${slots.A})`,
    });
  });

  test.each([
    ['the same path', async (path: string) => path],
    ['a symbolic link', async (path: string, other: string) => symlink(path, other).then(() => other)],
    ['a hard link', async (path: string, other: string) => link(path, other).then(() => other)],
  ])('when a slot of another target is %s', async (_, makeOther) => {
    await using system = await FakeSystem.make(rootElsewhere);
    const slots = { A: await system.file('a.img'), B: await system.file('b.img') };
    const others = ['/nowhere/boot-a', await makeOther(slots.B, join(system.folder, 'boot-b.img'))];
    await expect(attempt(system, { slots, others })).rejects.toMatchObject({
      code: 'slots-identical',
      message: `slot B (${slots.B}): is the same device as a slot of another target (${others[1]})`,
    });
  });

  test.each(['A', 'B'] as const)('if the bootloader reports %s as booted', async (slot) => {
    await using system = await FakeSystem.make(rootElsewhere);
    const slots = { A: await system.file('a.img'), B: await system.file('b.img') };
    await expect(attempt(system, { slots, slot, booted: slot })).rejects.toMatchObject({ code: 'slot-booted' });
  });

  test('if / is mounted from it, for any answer of the bootloader', async () => {
    await using system = await FakeSystem.make(
      '1 0 0:9 / / rw - overlay o rw,lowerdir=/ro',
      '2 1 7:3 / /ro rw - ext4 x',
    );
    const slots = { A: await system.file('a.img'), B: await system.file('b.img') };
    await system.loop('7:3', slots.B);
    await expect(attempt(system, { slots })).rejects.toMatchObject({
      code: 'slot-booted',
      message: `slot B (${slots.B}): is the running system`,
    });
  });

  test('when it is mounted somewhere', async () => {
    await using system = await FakeSystem.make(rootElsewhere, '2 1 7:3 / /mnt rw - ext4 /dev/loop3 rw');
    const slots = { A: await system.file('a.img'), B: await system.file('b.img') };
    await system.loop('7:3', slots.B);
    await expect(attempt(system, { slots })).rejects.toMatchObject({
      code: 'slot-mounted',
      message: `slot B (${slots.B}): is mounted at /mnt`,
      advice: 'unmount it',
    });
  });

  test('when it is swapped to', async () => {
    await using system = await FakeSystem.make(rootElsewhere);
    const slots = { A: await system.file('a.img'), B: await system.file('b.img') };
    await system.swapTo(slots.B);
    await expect(attempt(system, { slots })).rejects.toMatchObject({ code: 'slot-busy', remedy: 'retry' });
  });

  test('when the image is known to be one byte too large', async () => {
    await using system = await FakeSystem.make(rootElsewhere);
    const slots = { A: await system.file('a.img'), B: await system.file('b.img', Buffer.alloc(1000)) };
    await expect(attempt(system, { slots, sizeBytes: 1001 })).rejects.toMatchObject({
      code: 'slot-too-small',
      message: `slot B (${slots.B}): holds 1000 bytes, the image has 1001`,
    });
    await expect(attempt(system, { slots, sizeBytes: 1000 })).rejects.toThrow('a device was opened');
  });
});
