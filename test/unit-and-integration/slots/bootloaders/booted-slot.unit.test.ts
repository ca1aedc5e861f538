import { describe, expect, test } from 'vitest';

import {
  resolveBootedSlot,
  slotNamedOnCommandLine,
  slotMounted,
  slotOfDeviceTree,
  slotOfRootArgument,
} from '../../../../src/slots/bootloaders/booted-slot.ts';
import type { SlotDetector, CommandLineDeps } from '../../../../src/slots/bootloaders/booted-slot.ts';
import type { SlotName } from '../../../../src/update/ports.ts';

const signal = new AbortController().signal;
const slots = { A: '/dev/disk/by-partlabel/rootfs-a', B: '/dev/disk/by-partlabel/rootfs-b' };
const links: Readonly<Record<string, string>> = {
  '/dev/disk/by-partlabel/rootfs-a': '/dev/mmcblk0p2',
  '/dev/disk/by-partlabel/rootfs-b': '/dev/mmcblk0p3',
  '/dev/disk/by-partuuid/0a-02': '/dev/mmcblk0p2',
  '/dev/disk/by-uuid/1234': '/dev/mmcblk0p2',
  '/dev/mmcblk0p2': '/dev/mmcblk0p2',
  '/dev/mmcblk0p3': '/dev/mmcblk0p3',
  '/dev/sda1': '/dev/sda1',
};

describe('the slot that runs', () => {
  test.each<[string, SlotName]>([
    ['quiet thing.slot=system1', 'B'],
    ['rauc.slot=system0 quiet', 'A'],
    ['thing.slot=system1 rauc.slot=system1', 'B'],
    ['thing.slot=system0 thing.slot=system1', 'B'],
    ['thing.slot="system1"\n', 'B'],
  ])('is named by the kernel command line %j', async (cmdline, slot) => {
    expect(await resolveBootedSlot(commandLine(cmdline), signal)).toBe(slot);
  });

  test.each<[string, SlotName]>([
    ['root=/dev/mmcblk0p3 ro', 'B'],
    ['root=PARTLABEL=rootfs-a', 'A'],
    ['root=PARTUUID=0A-02', 'A'],
    ['root=/dev/disk/by-partlabel/rootfs-b', 'B'],
  ])('is known by its root device: %s', async (cmdline, slot) => {
    expect(await resolveBootedSlot(commandLine(cmdline), signal)).toBe(slot);
  });

  test.each([
    'root=UUID=1234',
    'root=LABEL=rootfs',
    'root=/dev/sda1',
    'root=/dev/gone',
    'root=/dev/nfs',
    'quiet',
    'myroot=/dev/mmcblk0p2',
  ])('is not derived from %s, which both slots may have', async (cmdline) => {
    const asked = resolveBootedSlot(commandLine(cmdline), signal);
    await expect(asked).rejects.toMatchObject({ code: 'booted-slot-unknown' });
  });

  test('is unknown for a rescue system, with any mounts', async () => {
    await expect(resolveBootedSlot([...commandLine('rauc.slot=rescue'), mounted('A')], signal)).rejects.toMatchObject({
      code: 'booted-slot-unknown',
      message: 'rauc.slot= on the kernel command line names rescue, which is not a slot',
    });
  });

  test('is the partition that the Raspberry Pi reports, in 32 bits with the high byte first', async () => {
    const partition = Buffer.from([0, 0, 0, 3]);
    expect(await resolveBootedSlot([deviceTree({ partition })], signal)).toBe('B');
  });

  test.each([
    ['an old bootloader, which says 0', { partition: Buffer.alloc(4) }, /partition 0 is not a slot/],
    ['a property of another size', { partition: Buffer.alloc(8) }, /8 bytes instead of 4/],
    ['no device tree', {}, /ENOENT/],
  ])('is left to what is mounted by %s', async (_what, content, why) => {
    expect(await resolveBootedSlot([deviceTree(content), mounted('B')], signal)).toBe('B');
    await expect(resolveBootedSlot([deviceTree(content), mounted(undefined)], signal)).rejects.toMatchObject({
      code: 'booted-slot-unknown',
      message: expect.stringMatching(why) as unknown,
    });
  });

  test('must be the same for every source that knows one', async () => {
    const sources = commandLine('thing.slot=system0 root=/dev/mmcblk0p2');
    expect(await resolveBootedSlot([...sources, mounted('A')], signal)).toBe('A');
    await expect(resolveBootedSlot([...sources, mounted(undefined), mounted('B')], signal)).rejects.toMatchObject({
      code: 'booted-slot-contradiction',
      message:
        'thing.slot= on the kernel command line reports slot A as running, the mounted root file system reports slot B',
    });
    await expect(resolveBootedSlot(commandLine('thing.slot=system0 rauc.slot=system1'), signal)).rejects.toMatchObject({
      code: 'booted-slot-contradiction',
    });
  });

  test('is unknown, with every reason, where no source knows one', async () => {
    await expect(resolveBootedSlot([...commandLine('quiet'), mounted(undefined)], signal)).rejects.toMatchObject({
      message:
        'cannot tell which slot runs (thing.slot= on the kernel command line: is not there; ' +
        'rauc.slot= on the kernel command line: is not there; ' +
        'root= on the kernel command line: names no device that tells the slots apart; ' +
        'the mounted root file system: is not a slot)',
    });
  });

  test('is unknown where the kernel command line cannot be read', async () => {
    await expect(resolveBootedSlot(commandLine(undefined), signal)).rejects.toMatchObject({
      code: 'booted-slot-unknown',
    });
  });
});

type ReadFs = CommandLineDeps['fs'];

function files(content: Readonly<Record<string, string | Buffer | undefined>>): ReadFs {
  const missing = (path: string) =>
    Object.assign(new Error(`ENOENT: no such file, open '${path}'`), { code: 'ENOENT' });
  const found = async (path: string, table: Readonly<Record<string, unknown>>) => {
    if (table[path] === undefined) throw missing(path);
    return table[path];
  };
  const fs = {
    readFile: (path: string) => found(path, content),
    realpath: (path: string) => found(path, links),
  };
  return fs as unknown as ReadFs;
}

function commandLine(cmdline: string | undefined): readonly SlotDetector[] {
  const deps = { path: 'cmdline', names: { A: 'system0', B: 'system1' }, slots, fs: files({ cmdline }) };
  return [
    slotNamedOnCommandLine('thing.slot', deps),
    slotNamedOnCommandLine('rauc.slot', deps),
    slotOfRootArgument(deps),
  ];
}

function deviceTree(content: Readonly<Record<string, Buffer>>): SlotDetector {
  return slotOfDeviceTree('partition', { A: 2, B: 3 }, files(content));
}

function mounted(slot: SlotName | undefined): SlotDetector {
  return slotMounted(async () => slot);
}
