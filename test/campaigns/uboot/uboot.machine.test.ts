import { describe, expect, test } from 'vitest';

import { bootloaderContract, evidence } from '../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import { UbootMachine } from './uboot-machine.ts';
import type { Kernel } from './uboot-machine.ts';

const signal = new AbortController().signal;
const SECTOR_BYTES = 512;

describe('a gateway that left the factory', () => {
  test('starts slot A, never the blank one, and writes an environment that the tools read', async () => {
    await using machine = await UbootMachine.open('--args', 'console=ttyAMA0');
    const told = 'root=PARTLABEL=rootfs-a thing.slot=A ro panic=10 console=ttyAMA0';
    expect(await machine.start()).toMatchObject({ slot: 'A', told, end: 'kernel starts' });
    expect(await machine.environment()).toEqual({ BOOT_ORDER: 'A', BOOT_A_LEFT: '2', BOOT_B_LEFT: '3' });
    for (let starts = 0; starts < 4; starts += 1) expect(await machine.start()).toMatchObject({ slot: 'A' });
    expect(await machine.environment()).toMatchObject({ BOOT_ORDER: 'A', BOOT_A_LEFT: '1' });
  });

  test('counts as many attempts as its disk was made for', async () => {
    await using machine = await UbootMachine.open('--attempts', '12');
    await machine.start();
    expect(await machine.environment()).toMatchObject({ BOOT_A_LEFT: 'b', BOOT_B_LEFT: 'c' });
  });
});

describe('a trial', () => {
  test('is passed to Linux, boots once, and the fallback counts down its own attempts, and again after that', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.tryOnce('B', evidence, signal);
    expect(await machine.environment()).toEqual({
      BOOT_ORDER: 'B A',
      BOOT_A_LEFT: '3',
      BOOT_B_LEFT: '1',
      BOOT_TRIAL: 'B',
    });
    const said: string[] = [];
    const left: (string | undefined)[] = [];
    for (let starts = 0; starts < 5; starts += 1) {
      const { slot, told } = await machine.start();
      said.push(`${slot} ${/thing\.trial=./.exec(told)?.[0]}`);
      const { BOOT_A_LEFT, BOOT_B_LEFT } = await machine.environment();
      left.push(`${BOOT_A_LEFT} ${BOOT_B_LEFT}`);
    }
    const [trial, fallback] = ['B thing.trial=1', 'A thing.trial=0'];
    expect(said).toEqual([trial, fallback, fallback, fallback, trial]);
    expect(left).toEqual(['3 0', '2 0', '1 0', '0 0', '3 2']);
  });

  test('that was committed boots for ever', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.tryOnce('B', evidence, signal);
    await machine.boot();
    await machine.bootloader.commit('B', signal);
    expect(await machine.start()).toMatchObject({
      slot: 'B',
      told: 'root=PARTLABEL=rootfs-b thing.slot=B thing.trial=0 ro panic=10',
    });
    expect(await machine.environment()).toEqual({
      BOOT_ORDER: 'B A',
      BOOT_A_LEFT: '3',
      BOOT_B_LEFT: '2',
      BOOT_TRIAL: 'none',
    });
  });

  test.each<Kernel>(['is none', 'is missing'])('whose kernel %s ends in a reset and falls back', async (kernel) => {
    await using machine = await UbootMachine.inUse();
    await machine.fill('B', kernel);
    await machine.bootloader.tryOnce('B', evidence, signal);
    expect(await machine.start()).toMatchObject({ slot: 'B', end: 'reset' });
    expect(await machine.start()).toMatchObject({ slot: 'A', end: 'kernel starts' });
  });

  test('in a slot without a file system ends in a reset and falls back', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.blank('B');
    await machine.bootloader.tryOnce('B', evidence, signal);
    expect(await machine.start()).toMatchObject({ slot: 'B', end: 'reset' });
    expect(await machine.start()).toMatchObject({ slot: 'A', end: 'kernel starts' });
  });

  test('is not booted where it cannot be counted, and a committed slot is', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.tryOnce('B', evidence, signal);
    expect(await machine.start({ pulled: true })).toMatchObject({
      slot: 'A',
      told: expect.stringContaining('thing.trial=0') as unknown,
    });
    expect(await machine.boot()).toBe('B');
    await machine.bootloader.commit('B', signal);
    expect(await machine.start({ pulled: true })).toMatchObject({ slot: 'B' });
  });
});

describe('the environment', () => {
  test('that cannot be read is an error to the agent, and U-Boot starts what is there and writes a new one', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.commit('A', signal);
    const spoilt = Buffer.alloc(0x4000, 0x5a);
    await machine.setCopies(spoilt, spoilt);
    await expect(machine.bootloader.inspect(signal)).rejects.toMatchObject({ code: 'boot-environment-unreadable' });
    await machine.blank('A');
    expect(await machine.start()).toMatchObject({ slot: 'B', end: 'kernel starts' });
    expect(await machine.environment()).toEqual({ BOOT_ORDER: 'B', BOOT_A_LEFT: '3', BOOT_B_LEFT: '2' });
  });

  test.each([0, 1])('with a corrupt copy %i uses the other one', async (spoiltCopy) => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.tryOnce('B', evidence, signal);
    await machine.bootloader.canary(signal);
    const copies = await machine.copies();
    const [first, second] = copies.map((copy, at) => (at === spoiltCopy ? Buffer.alloc(0x4000, 0x5a) : copy));
    await machine.setCopies(first ?? Buffer.alloc(0), second ?? Buffer.alloc(0));
    expect(await machine.start()).toMatchObject({ slot: 'B' });
    expect(await machine.environment()).toMatchObject({ BOOT_B_LEFT: '0' });
  });

  test('interrupted at any sector while U-Boot writes it is old or new, to U-Boot and to the tools', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.bootloader.tryOnce('B', evidence, signal);
    const before = await machine.copies();
    expect(await machine.start()).toMatchObject({ slot: 'B' });
    const after = await machine.copies();
    const written = before.map((copy, at) => !copy.equals(after[at] ?? copy));
    const of = (copies: readonly [Buffer, Buffer], at: number) => copies[at] ?? Buffer.alloc(0);
    const cutAt = async (bytes: number) => {
      const [first = before[0], second = before[1]] = before.map((copy, at) =>
        written[at] === true ? Buffer.concat([of(after, at).subarray(0, bytes), copy.subarray(bytes)]) : copy,
      );
      await machine.setCopies(first, second);
      const { BOOT_B_LEFT } = await machine.environment();
      return BOOT_B_LEFT;
    };
    expect(written.filter(Boolean)).toHaveLength(1);
    const seen: (string | undefined)[] = [];
    for (let bytes = 0; bytes <= 0x4000; bytes += SECTOR_BYTES) seen.push(await cutAt(bytes));
    expect([...new Set(seen)]).toEqual(['1', '0']);
    for (const bytes of [0, SECTOR_BYTES, 0x2000, 0x4000]) {
      const left = await cutAt(bytes);
      expect(await machine.start()).toMatchObject({ slot: left === '1' ? 'B' : 'A' });
    }
  });

  test('with an unknown name in its order starts the slots, and keeps the name after them', async () => {
    await using machine = await UbootMachine.inUse();
    await machine.set('BOOT_ORDER=rescue A');
    expect(await machine.start()).toMatchObject({ slot: 'A' });
    await machine.bootloader.tryOnce('B', evidence, signal);
    expect(await machine.environment()).toMatchObject({ BOOT_ORDER: 'B A rescue' });
    expect([(await machine.start()).slot, (await machine.start()).slot]).toEqual(['B', 'A']);
    expect(await machine.environment()).toMatchObject({ BOOT_ORDER: 'B A rescue' });
  });
});

bootloaderContract('the real U-Boot', () => UbootMachine.inUse());
