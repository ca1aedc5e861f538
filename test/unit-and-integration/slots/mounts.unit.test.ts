import { symlink } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { identityAt } from '../../../src/slots/device-identity.ts';
import { findMountedSlot, findUse, refuseStateOnSlot } from '../../../src/slots/mounts.ts';
import { findPersistence, rejectStateInMemory } from '../../../src/slots/volatile-state.ts';
import type { FileSystemKind } from '../../../src/slots/volatile-state.ts';
import { deviceNumber } from '../../../src/system/files/same-device.ts';
import { FakeSystem } from './fake-system.ts';

async function twoSlots(...mounts: readonly string[]): Promise<FakeSystem & { slots: { A: string; B: string } }> {
  const system = await FakeSystem.make(...mounts);
  return Object.assign(system, { slots: { A: await system.file('a.img'), B: await system.file('b.img') } });
}

describe('the slot that / is mounted from', () => {
  test('is found through a loop device', async () => {
    await using system = await twoSlots('1 0 7:3 / / ro - squashfs /dev/loop3 ro');
    await system.loop('7:3', system.slots.B);
    expect(await findMountedSlot(system.slots, system.view)).toBe('B');
  });

  test('is found through a device mapper on a loop device, and through symbolic links to the slots', async () => {
    await using system = await twoSlots('1 0 253:0 / / ro - ext4 /dev/dm-0 ro');
    await system.stack('253:0', '253:1', '8:17');
    await system.stack('253:1', '7:3');
    await system.loop('7:3', system.slots.A);
    const link = join(system.folder, 'rootfs-a');
    await symlink(system.slots.A, link);
    expect(await findMountedSlot({ A: link, B: system.slots.B }, system.view)).toBe('A');
  });

  test('is found below an overlay on an overlay', async () => {
    await using system = await twoSlots(
      '1 0 0:5 / / rw - rootfs rootfs rw',
      '2 1 7:3 / /ro rw - ext4 /dev/loop3 rw',
      '3 1 0:8 / /mid rw - overlay o rw,lowerdir=/ro/usr,upperdir=/x',
      '4 1 0:9 / / rw - overlay o rw,lowerdir=/mid,upperdir=/y',
    );
    await system.loop('7:3', system.slots.B);
    expect(await findMountedSlot(system.slots, system.view)).toBe('B');
  });

  test('is found by the source where the file system has no device number of its own', async () => {
    await using system = await twoSlots();
    await system.mount(`1 0 0:33 /@root / rw - btrfs /dev/..${system.slots.A} rw`);
    expect(await findMountedSlot(system.slots, system.view)).toBe('A');
  });

  test.each([
    ['another device', '1 0 8:1 / / rw - ext4 /dev/sda1 rw'],
    ['a network root', '1 0 0:20 / / rw - nfs server:/root rw'],
    ['layers that cannot be seen', '1 0 0:9 / / rw - overlay o rw,lowerdir=/gone,upperdir=/y'],
    ['an overlay that lies on itself', '1 0 0:9 / / rw - overlay o rw,lowerdir=/,upperdir=/y'],
    [
      'overlays that lie on each other',
      '1 0 0:9 / / rw - overlay o rw,lowerdir=/mid\n2 1 0:8 / /mid rw - overlay o rw,lowerdir=/',
    ],
    ['no mount at all', ''],
  ])('cannot be told for %s', async (_, mount) => {
    await using system = await twoSlots(mount, '9 1 7:3 / /mnt rw - ext4 /dev/loop3 rw');
    await system.loop('7:3', system.slots.B);
    expect(await findMountedSlot(system.slots, system.view)).toBeUndefined();
  });

  test('is unknown if both slots are the same, or neither exists', async () => {
    await using system = await twoSlots('1 0 7:3 / / ro - squashfs /dev/loop3 ro');
    await system.loop('7:3', system.slots.B);
    expect(await findMountedSlot({ A: system.slots.B, B: system.slots.B }, system.view)).toBeUndefined();
    expect(await findMountedSlot({ A: '/nowhere/a', B: '/nowhere/b' }, system.view)).toBeUndefined();
  });

  test('devices that lie on each other in a ring end the search', async () => {
    await using system = await twoSlots('1 0 253:0 / / ro - ext4 /dev/dm-0 ro');
    await system.stack('253:0', '253:0');
    expect(await findMountedSlot(system.slots, system.view)).toBeUndefined();
  });

  test('without /proc it is an error, not an answer', async () => {
    const view = { proc: '/nowhere', sys: '/nowhere' };
    await expect(findMountedSlot({ A: '/a', B: '/b' }, view)).rejects.toMatchObject({ code: 'mounts-unknown' });
  });
});

describe('who uses a device', () => {
  test('no slot', async () => {
    await using system = await twoSlots('1 0 8:1 / / rw - ext4 /dev/sda1 rw');
    await system.swapTo(system.slots.A);
    expect(await findUse('block:8:2', system.view)).toBeUndefined();
    expect(await findUse((await identityAt(system.slots.B)) ?? '', system.view)).toBeUndefined();
  });

  test('a mount, anywhere', async () => {
    await using system = await twoSlots(
      '1 0 8:1 / / rw - ext4 /dev/sda1 rw',
      String.raw`2 1 8:2 / /mnt/old\040root rw - ext4 x rw`,
    );
    expect(await findUse('block:8:2', system.view)).toEqual({ kind: 'mounted', at: '/mnt/old root' });
  });

  test('a mount of a loop device that shows the slot’s file', async () => {
    await using system = await twoSlots('2 1 7:3 / /mnt rw - ext4 /dev/loop3 rw');
    await system.loop('7:3', system.slots.B);
    const identity = (await identityAt(system.slots.B)) ?? '';
    expect(await findUse(identity, system.view)).toEqual({ kind: 'mounted', at: '/mnt' });
  });

  test('the swap', async () => {
    await using system = await FakeSystem.make('1 0 8:1 / / rw - ext4 /dev/sda1 rw');
    const path = await system.file('swap file');
    await system.swapTo('/nowhere', path);
    expect(await findUse((await identityAt(path)) ?? '', system.view)).toEqual({ kind: 'swap' });
  });

  test('a device mapper that is not mounted', async () => {
    await using system = await FakeSystem.make('1 0 8:1 / / rw - ext4 /dev/sda1 rw');
    await system.stack('253:0', '8:2');
    expect(await findUse('block:8:2', system.view)).toEqual({ kind: 'held', by: 'dm-0' });
  });
});

test.each([
  [0x0801n, '8:1'],
  [0xb306n, '179:6'],
  [(259n << 8n) | 5n, '259:5'],
  [((0x12345n >> 12n) << 44n) | (0x345n << 8n) | ((0xabcden >> 8n) << 20n) | 0xden, '74565:703710'],
])('device number %d is %s', (rdev, text) => {
  expect(deviceNumber(rdev)).toBe(text);
});

describe('a state directory', () => {
  test.each([
    ['on the running slot', '1 0 7:3 / / rw - ext4 /dev/loop3 rw'],
    [
      'on a slot that is mounted beside',
      '1 0 8:1 / / rw - ext4 /dev/sda1 rw',
      '2 1 7:3 / /usr rw - ext4 /dev/loop3 rw',
    ],
    [
      'on an overlay whose upper layer is the slot',
      '1 0 7:3 / /ro rw - ext4 /dev/loop3 rw',
      '2 0 0:9 / / rw - overlay o rw,lowerdir=/gone,upperdir=/ro/upper',
    ],
  ])('%s is refused', async (_, ...mounts) => {
    await using system = await twoSlots(...mounts);
    await system.loop('7:3', system.slots.B);
    const refused = refuseStateOnSlot('/usr/no/such/directory', Object.values(system.slots), system.view);
    await expect(refused).rejects.toMatchObject({ code: 'state-on-slot', exit: 'configuration' });
  });

  test.each([
    ['on a partition of its own', '1 0 7:3 / / rw - ext4 l rw', '2 1 8:3 / /usr rw - ext4 /dev/sda3 rw'],
    [
      'on an overlay that only reads the slot',
      '1 0 7:3 / /ro rw - ext4 /dev/loop3 rw',
      '3 0 8:3 / /rw rw - ext4 /dev/sda3 rw',
      '2 0 0:9 / / rw - overlay o rw,lowerdir=/ro,upperdir=/rw/upper',
    ],
    ['in memory', '1 0 7:3 / / rw - ext4 l rw', '2 1 0:30 / /usr rw - tmpfs tmpfs rw'],
    ['where nothing can be told', ''],
  ])('%s is not', async (_, ...mounts) => {
    await using system = await twoSlots(...mounts);
    await system.loop('7:3', system.slots.B);
    const admitted = refuseStateOnSlot('/usr/no/such/directory', Object.values(system.slots), system.view);
    await expect(admitted).resolves.toBeUndefined();
  });
});

describe('a state directory that the power takes away', () => {
  const kinds = (kind: FileSystemKind) => async (): Promise<FileSystemKind> => kind;
  const [memory, overlay, other] = [kinds('memory'), kinds('overlay'), kinds('other')];
  const missingDevice = '/dev/disk/by-partlabel/no-such-slot';
  const overMemory = [
    '1 0 7:3 / /ro ro - ext4 /dev/loop3 ro',
    '3 1 0:30 / /rw rw - tmpfs tmpfs rw',
    '2 0 0:9 / / rw - overlay o rw,lowerdir=/ro,upperdir=/rw/upper',
  ];
  const overDisk = overMemory.map((mount) => mount.replace('0:30 / /rw rw - tmpfs', '8:3 / /rw rw - ext4'));

  test.each([
    ['in memory, where a slot is a device that did not appear yet', ['1 0 0:30 / / rw - tmpfs tmpfs rw'], memory],
    ['on an overlay whose upper layer is memory', overMemory, overlay],
  ])('%s: is refused', async (_, mounts, kindOf) => {
    await using system = await twoSlots(...mounts);
    const refused = rejectStateInMemory('/usr/no/such', [system.slots.A, missingDevice], system.view, kindOf);
    await expect(refused).rejects.toMatchObject({
      code: 'state-unavailable',
      exit: 'disk',
      advice: expect.stringMatching(/^mount the state partition at \/usr\/no\/such/) as unknown,
    });
  });

  test.each([
    ['in memory, as slots that are files may be', ['1 0 0:30 / / rw - tmpfs tmpfs rw'], memory, false],
    ['on a partition', ['1 0 8:3 / / rw - ext4 /dev/sda3 rw'], other, true],
    ['on an overlay that writes to a disk', overDisk, overlay, true],
    // As in a service whose state partition was mounted beneath its own view of the directory.
    ['on a disk that the mounts do not show', ['1 0 0:30 / / rw - tmpfs tmpfs rw'], other, true],
  ])('%s: is not', async (_, mounts, kindOf, onDevices) => {
    await using system = await twoSlots(...mounts);
    const slots = onDevices ? [missingDevice] : Object.values(system.slots);
    await expect(rejectStateInMemory('/usr/no/such', slots, system.view, kindOf)).resolves.toBeUndefined();
  });

  describe('in a container, on an overlay', () => {
    const container = 'pid:[4026532238]';
    const overFolder = (upper: string): readonly string[] => [
      '3 1 0:30 / /tmp rw - tmpfs tmpfs rw',
      `2 0 0:9 / / rw - overlay o rw,lowerdir=/ro,upperdir=${upper}`,
    ];

    // Regression: the container had a /tmp in memory, and the layer was in another /tmp, on the host's disk.
    test('whose layer cannot be seen from there: is not refused, and not known', async () => {
      await using system = await twoSlots(...overFolder('/tmp/no/such/upper'));
      await system.processNamespace(container);
      await expect(rejectStateInMemory('/usr', [missingDevice], system.view, overlay)).resolves.toBeUndefined();
      const found = await findPersistence('/usr', system.view, overlay);
      expect(found).toEqual({ kind: 'unknown', layer: '/tmp/no/such/upper' });
    });

    test('whose layer can be seen from there, in memory: is refused', async () => {
      await using system = await twoSlots(...overFolder('/tmp'));
      await system.processNamespace(container);
      expect(await findPersistence('/usr', system.view, overlay)).toEqual({ kind: 'memory' });
    });

    // As after systemd.volatile=overlay: the mount for the overlay is unmounted again.
    test('on a machine with memory above the layer’s path: is rejected, although the layer is invisible', async () => {
      await using system = await twoSlots(...overFolder('/tmp/no/such/upper'));
      await system.processNamespace('pid:[4026531836]');
      expect(await findPersistence('/usr', system.view, overlay)).toEqual({ kind: 'memory' });
    });
  });
});
