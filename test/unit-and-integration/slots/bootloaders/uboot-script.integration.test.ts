import { describe, expect, test } from 'vitest';

import { UbootRig } from './uboot-rig.ts';

const onTrial = ['BOOT_ORDER=B A', 'BOOT_A_LEFT=3', 'BOOT_B_LEFT=1', 'BOOT_TRIAL=B'];

describe('U-Boot’s script', () => {
  test('tells Linux whether the boot is a trial, where that is known', async () => {
    await using rig = await UbootRig.open(2);
    expect(await rig.choose()).toEqual({ slot: 'A', args: 'thing.slot=A' });
    await rig.set(...onTrial);
    expect(await rig.choose()).toEqual({ slot: 'B', args: 'thing.slot=B thing.trial=1' });
    expect(await rig.choose()).toEqual({ slot: 'A', args: 'thing.slot=A thing.trial=0' });
  });

  test('does not boot a trial that it cannot count', async () => {
    await using rig = await UbootRig.open(2);
    await rig.set(...onTrial);
    expect(await rig.choose({ readOnly: true })).toEqual({ slot: 'A', args: 'thing.slot=A thing.trial=0' });
    expect(await rig.choose({ readOnly: true })).toMatchObject({ slot: 'A' });
    expect(await rig.choose()).toMatchObject({ slot: 'B' });
  });

  test('boots a committed slot all the same when it cannot count, and for ever', async () => {
    await using rig = await UbootRig.open(2);
    await rig.set('BOOT_TRIAL=none', 'BOOT_ORDER=A B', 'BOOT_A_LEFT=0', 'BOOT_B_LEFT=0');
    expect(await rig.choose({ readOnly: true })).toMatchObject({ slot: 'A' });
    expect(await rig.choose({ readOnly: true })).toMatchObject({ slot: 'A' });
  });

  test('starts a new board with what is really there', async () => {
    await using rig = await UbootRig.open(2);
    await rig.set('BOOT_ORDER=', 'BOOT_A_LEFT=', 'BOOT_B_LEFT=');
    expect(await rig.choose({ there: ['B'] })).toMatchObject({ slot: 'B' });
    expect(await rig.get('BOOT_ORDER')).toBe('B');
  });

  test.each([{ there: ['A', 'B'] as const }, { there: [] }])(
    'tries both slots in turn where nothing is known ($there)',
    async ({ there }) => {
      await using rig = await UbootRig.open(2);
      await rig.set('BOOT_ORDER=', 'BOOT_A_LEFT=', 'BOOT_B_LEFT=');
      const slots: string[] = [];
      for (let boots = 0; boots < 7; boots += 1) slots.push((await rig.choose({ there })).slot);
      expect(slots.join('')).toBe('AAABBBA');
    },
  );

  test('resets counters of slots in the order, and no others', async () => {
    await using rig = await UbootRig.open(2);
    await rig.set('BOOT_ORDER=B', 'BOOT_A_LEFT=0', 'BOOT_B_LEFT=0');
    expect(await rig.choose()).toMatchObject({ slot: 'B' });
    expect(await rig.get('BOOT_B_LEFT')).toBe('2');
  });
});
