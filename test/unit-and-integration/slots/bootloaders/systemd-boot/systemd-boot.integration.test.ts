import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { SlotName } from '../../../../../src/update/ports.ts';
import { bootloaderContract, evidence } from '../bootloader-contract.ts';
import { SystemdBootRig } from './systemd-boot-rig.ts';

const signal = new AbortController().signal;
const changing = ['mv', 'rm', 'sync', 'mkdir', 'debugfs'];
/** More than a call has. */
const MAX_STEPS = 40;

let installed: SystemdBootRig;
beforeAll(async () => {
  installed = await SystemdBootRig.open();
});
afterAll(() => installed[Symbol.asyncDispose]());

bootloaderContract('systemd-boot with the shipped handler', () => installed.copy());

/** Makes programs that run as usual, except that the n-th call ends the handler before it does anything. */
async function cutBefore(rig: SystemdBootRig, step: number): Promise<string> {
  const folder = rig.folder.file(`cut-${step}`);
  await mkdir(folder);
  const counter = join(folder, 'left');
  await writeFile(counter, `${step}\n`);
  for (const name of changing) {
    const count = `read -r left <${counter}; [ "$left" -gt 0 ] || { kill -KILL $PPID; exit 1; }; echo $((left - 1)) >${counter}`;
    await writeFile(join(folder, name), `#!/bin/sh\n${count}\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec ${name} "$@"\n`, {
      mode: 0o755,
    });
  }
  return folder;
}

/** Cuts the power before each step of a call on a prepared gateway, and returns the boots after each cut. */
async function bootsAfterCuts(
  prepare: (rig: SystemdBootRig) => Promise<void>,
  ...call: readonly string[]
): Promise<ReadonlySet<string>> {
  const seen = new Set<string>();
  await using prepared = await installed.copy();
  await prepare(prepared);
  for (let step = 0; step < MAX_STEPS; step += 1) {
    await using rig = await prepared.copy();
    const isWhole = await rig.call(await cutBefore(rig, step), ...call);
    const boots: SlotName[] = [];
    for (let boot = 0; boot < 6; boot += 1) boots.push(await rig.boot());
    seen.add(boots.join(''));
    if (isWhole) return seen;
  }
  throw new Error(`${call.join(' ')} does not end`);
}

const trialOfB = async ({ bootloader }: SystemdBootRig): Promise<void> => {
  await bootloader.markUnbootable('B', signal);
  await bootloader.tryOnce('B', evidence, signal);
};
const committedB = async (rig: SystemdBootRig): Promise<void> => {
  await trialOfB(rig);
  await rig.boot();
  await rig.bootloader.commit('B', signal);
};

describe('systemd-boot with the shipped handler', () => {
  test('boots the old choice or the new one after a power loss at each step of a call', async () => {
    expect(await bootsAfterCuts(async () => {}, 'set-primary', 'B')).toEqual(new Set(['AAAAAA', 'BAAAAA']));
    const onTrial = async (rig: SystemdBootRig): Promise<void> => {
      await trialOfB(rig);
      await rig.boot();
    };
    expect(await bootsAfterCuts(onTrial, 'set-state', 'B', 'good')).toEqual(new Set(['AAAAAA', 'BBBAAA']));
    expect(await bootsAfterCuts(committedB, 'set-state', 'A', 'bad')).toEqual(new Set(['BBBAAA', 'BBBBBB']));
    expect(await bootsAfterCuts(committedB, 'set-primary', 'A')).toEqual(new Set(['BBBAAA', 'BBBBBB', 'ABBBBB']));
  });

  test('falls back to the committed slot after three starts in vain, and reports the slot as bad then', async () => {
    await using rig = await installed.copy();
    await committedB(rig);
    expect([await rig.boot(), await rig.boot(), await rig.boot()]).toEqual(['B', 'B', 'B']);
    expect(await rig.bootloader.onTrial(signal)).toBe(false);
    expect([await rig.boot(), await rig.boot()]).toEqual(['A', 'A']);
    const { primary, slots } = await rig.bootloader.inspect(signal);
    expect([primary, slots.A.bootable, slots.B.bootable]).toEqual(['A', true, false]);
  });

  test('keeps why a slot was abandoned, in one word', async () => {
    await using rig = await installed.copy();
    await trialOfB(rig);
    await rig.boot();
    await rig.bootloader.markUnbootable('B', signal, 'state-unavailable');
    expect((await rig.bootloader.inspect(signal)).slots.B.lastWord).toBe('state-unavailable');
  });

  test('names kernel, slot and trial in the entry, with the arguments of the partition', async () => {
    await using rig = await installed.copy();
    await mkdir(rig.folder.file('esp/thing'), { recursive: true });
    await writeFile(rig.folder.file('esp/thing/arguments'), 'quiet\n');
    await trialOfB(rig);
    expect(await readFile(join(rig.entries, 'thing-3-b-trial+1.conf'), 'utf8')).toBe(
      'title Slot b\nsort-key thing\nversion 3\nlinux /thing/b/vmlinuz\ninitrd /thing/b/initrd.img\n' +
        'options root=PARTLABEL=rootfs-b thing.slot=B thing.trial=1 ro panic=10 quiet\n',
    );
  });

  test('arms no slot whose kernel is missing, and boots the other one', async () => {
    await using rig = await installed.copy();
    await writeFile(rig.folder.file('kernel-b'), '');
    await rig.bootloader.markUnbootable('B', signal);
    await expect(rig.bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject({ code: 'handler-failed' });
    expect(await rig.boot()).toBe('A');
  });
});
