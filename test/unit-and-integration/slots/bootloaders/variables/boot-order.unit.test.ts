import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { BootChange } from '../../../../../src/slots/bootloaders/boot-environment.ts';
import { BootloaderError } from '../../../../../src/slots/bootloaders/errors.ts';
import { grubSpelling } from '../../../../../src/slots/bootloaders/grub/grub.ts';
import { ubootSpelling } from '../../../../../src/slots/bootloaders/uboot.ts';
import {
  canSpareInOrder,
  changeOrder,
  inspectOrder,
  isOnTrial,
} from '../../../../../src/slots/bootloaders/variables/boot-order.ts';
import type { BootOrder } from '../../../../../src/slots/bootloaders/variables/boot-order.ts';
import { parseTrialMark } from '../../../../../src/slots/bootloaders/variables/trial-mark.ts';
import type { TrialMark } from '../../../../../src/slots/bootloaders/variables/trial-mark.ts';
import { parseVariables } from '../../../../../src/slots/bootloaders/variables/variable-environment.ts';
import type { OrderSpelling } from '../../../../../src/slots/bootloaders/variables/variable-environment.ts';
import type { SlotName } from '../../../../../src/update/ports.ts';
import { plainNames } from '../gateway-folder.ts';

const ATTEMPTS = 3;
const ubootVariables = { orderVariable: 'BOOT_ORDER', leftVariable: 'BOOT_{slot}_LEFT', trialVariable: 'BOOT_TRIAL' };
const uboot = ubootSpelling(ubootVariables, plainNames);
const grub = grubSpelling(ATTEMPTS, plainNames);

const left = fc.integer({ min: 0, max: ATTEMPTS });
const slotOrders = fc.constantFrom<readonly SlotName[]>(['A'], ['B'], ['A', 'B'], ['B', 'A']);
const slots = fc.constantFrom<SlotName>('A', 'B');
const lastWords = fc.option(fc.stringMatching(/^[a-z][a-z0-9-]{0,39}$/), { nil: undefined });
const marks = fc.oneof(
  fc.constantFrom<TrialMark | undefined>(undefined, { kind: 'none' }),
  fc.record({ kind: fc.constant('on-trial' as const), slot: slots }),
  fc.record({ kind: fc.constant('left' as const), slot: slots, lastWord: fc.constant('state-unavailable') }),
);
const others = fc.constantFrom(undefined, ['R'], ['rescue', '1']);
const parts = fc.tuple(slotOrders, left, left, marks, others);
const bootOrders: fc.Arbitrary<BootOrder> = parts.map(([order, a, b, trial, others]) => ({
  order,
  others,
  attemptsLeft: { A: order.includes('A') ? a : 0, B: order.includes('B') ? b : 0 },
  trial,
}));
const changes: fc.Arbitrary<BootChange> = fc.record({
  kind: fc.constantFrom('mark-unbootable', 'try-once', 'commit'),
  slot: slots,
  lastWord: lastWords,
});

describe('a boot order', () => {
  test('is the same after a change is made twice', () => {
    fc.assert(
      fc.property(bootOrders, changes, (order, change) => {
        const once = changeOrder(order, change, ATTEMPTS);
        expect(changeOrder(once, change, ATTEMPTS)).toEqual(once);
      }),
    );
  });

  test('always has a slot after a change that was not refused', () => {
    fc.assert(
      fc.property(bootOrders, changes, (order, change) => {
        fc.pre(change.kind === 'commit' || canSpareInOrder(order, change.slot));
        const { order: slots } = changeOrder(order, change, ATTEMPTS);
        expect(slots.length).toBeGreaterThan(0);
        expect(new Set(slots).size).toBe(slots.length);
      }),
    );
  });

  test('has an unbootable slot nowhere, and the other as it was', () => {
    fc.assert(
      fc.property(bootOrders, (order) => {
        const after = changeOrder(order, { kind: 'mark-unbootable', slot: 'B' }, ATTEMPTS);
        expect(after.order).toEqual(order.order.filter((slot) => slot === 'A'));
        expect(after.attemptsLeft).toEqual({ A: order.attemptsLeft.A, B: 0 });
      }),
    );
  });

  test('has the tried slot first with one attempt, and a fresh one behind it', () => {
    fc.assert(
      fc.property(bootOrders, (order) => {
        const after = changeOrder(order, { kind: 'try-once', slot: 'B' }, ATTEMPTS);
        const trial = { kind: 'on-trial', slot: 'B' };
        expect(after).toEqual({ order: ['B', 'A'], others: order.others, attemptsLeft: { A: ATTEMPTS, B: 1 }, trial });
      }),
    );
  });

  test('never gains a slot by the commit of the other', () => {
    fc.assert(
      fc.property(bootOrders, (order) => {
        const after = changeOrder(order, { kind: 'commit', slot: 'A' }, ATTEMPTS);
        expect(after.order.includes('B')).toBe(order.order.includes('B'));
        expect(inspectOrder(after).primary).toBe('A');
      }),
    );
  });

  test.each([
    ['U-Boot', uboot],
    ['GRUB', grub],
  ] as const)('reads back as it was written for %s', (_name, spelling) => {
    fc.assert(
      fc.property(bootOrders, (order) => {
        expect(spelling.parse(spelling.format(order))).toEqual(order);
      }),
    );
  });

  test.each([
    ['U-Boot', uboot, ['BOOT_ORDER', 'BOOT_A_LEFT', 'BOOT_B_LEFT', 'BOOT_TRIAL']],
    ['GRUB', grub, ['ORDER', 'A_OK', 'A_TRY', 'B_OK', 'B_TRY', 'TRIAL']],
  ] as const)(
    'is read from any text of %s, or refused: never guessed, never another error',
    (_name, spelling, names) => {
      const word = fc.oneof(fc.constantFrom('A', 'B', '0', '1', '3', 'ff', '-1', '', ' '), fc.string({ maxLength: 6 }));
      const value = fc.array(word, { maxLength: 3 }).map((words) => words.join(' '));
      const line = fc.tuple(fc.constantFrom(...names), value).map(([name, text]) => `${name}=${text}`);
      const lines = fc.array(fc.oneof({ weight: 9, arbitrary: line }, fc.string()), { maxLength: 9 });
      fc.assert(
        fc.property(lines, (texts) => {
          const order = parsed(spelling, texts.join('\n'));
          expect(order === undefined || isSound(order)).toBe(true);
        }),
        { numRuns: 500 },
      );
    },
  );

  test('of U-Boot counts in hexadecimal, as U-Boot does', () => {
    const order: BootOrder = { order: ['A', 'B'], attemptsLeft: { A: 10, B: 31 }, trial: undefined };
    expect(uboot.format(order).get('BOOT_A_LEFT')).toBe('a');
    expect(uboot.parse(parseVariables('BOOT_ORDER=A B\nBOOT_A_LEFT=a\nBOOT_B_LEFT=0x1f\n'))).toEqual(order);
  });

  test.each([
    ['U-Boot', uboot, 'BOOT_ORDER', 'BOOT_A_LEFT=3\nBOOT_B_LEFT=3\n'],
    ['GRUB', grub, 'ORDER', 'A_OK=1\nA_TRY=0\nB_OK=1\nB_TRY=0\n'],
  ] as const)('of %s keeps the name of a rescue system, behind the slots', (_name, spelling, variable, rest) => {
    const order = spelling.parse(parseVariables(`${variable}=A R B\n${rest}`));
    expect(order).toMatchObject({ order: ['A', 'B'], others: ['R'] });
    const written = (kind: BootChange['kind'], slot: SlotName) =>
      spelling.format(changeOrder(order, { kind, slot }, ATTEMPTS)).get(variable);
    expect(written('commit', 'A')).toBe('A B R');
    expect(written('try-once', 'B')).toBe('B A R');
    expect(written('mark-unbootable', 'A')).toBe('B R');
  });

  test('with no slot, with a name twice, or with very many is refused', () => {
    for (const text of ['R', '', 'A A', 'A R R', 'A 1 2 3 4 5 6 7 8 9']) {
      expect(parsed(uboot, `BOOT_ORDER=${text}\nBOOT_A_LEFT=3\nBOOT_B_LEFT=3\n`)).toBeUndefined();
    }
  });

  test('of GRUB leaves out a slot that is not marked OK', () => {
    const text = 'ORDER=B A\nA_OK=1\nA_TRY=7\nB_OK=0\nB_TRY=0\n';
    expect(grub.parse(parseVariables(text))).toEqual({ order: ['A'], attemptsLeft: { A: 0, B: 0 }, trial: undefined });
  });
});

describe('which slot is on trial', () => {
  const fresh: BootOrder = { order: ['A'], attemptsLeft: { A: 2, B: 0 }, trial: undefined };
  const change = (order: BootOrder, kind: BootChange['kind'], slot: SlotName, lastWord?: string): BootOrder =>
    changeOrder(order, { kind, slot, lastWord }, ATTEMPTS);
  const armed = change(fresh, 'try-once', 'B');
  const booted = (order: BootOrder, slot: SlotName): BootOrder => ({
    ...order,
    attemptsLeft: { ...order.attemptsLeft, [slot]: order.attemptsLeft[slot] - 1 },
  });

  test.each<readonly [string, BootOrder, SlotName, boolean]>([
    ['what a factory left', fresh, 'A', false],
    ['the slot that armed the other', armed, 'A', false],
    ['the slot that was armed', booted(armed, 'B'), 'B', true],
    ['the old slot after a fall back', booted(booted(armed, 'B'), 'A'), 'A', false],
    ['one that is counted anew before anybody judged it', { ...armed, attemptsLeft: { A: 3, B: 2 } }, 'B', true],
    ['one that was committed', change(booted(armed, 'B'), 'commit', 'B'), 'B', false],
    [
      'one that was committed and boots without an agent',
      { ...change(armed, 'commit', 'B'), attemptsLeft: { A: 3, B: 0 } },
      'B',
      false,
    ],
    ['one whose mark survives the commit of the other', change(booted(armed, 'B'), 'commit', 'A'), 'B', true],
    ['one that was given up and still runs', change(booted(armed, 'B'), 'mark-unbootable', 'B'), 'B', true],
    ['one that has nothing to fall back to', { ...booted(armed, 'B'), order: ['B'] }, 'B', false],
  ])('%s', (_name, order, slot, expected) => {
    expect(isOnTrial(order, slot, ATTEMPTS)).toBe(expected);
  });

  test.each<readonly [string, BootOrder, SlotName, boolean]>([
    ['a trial has used up its only attempt', booted(armed, 'B'), 'B', true],
    ['a committed slot has some left', { ...armed, attemptsLeft: { A: 3, B: 2 } }, 'B', false],
    ['the old slot is behind the one that fell back', booted(booted(armed, 'B'), 'A'), 'A', false],
  ])('without a mark, as older agents write none: %s', (_name, order, slot, expected) => {
    expect(isOnTrial({ ...order, trial: undefined }, slot, ATTEMPTS)).toBe(expected);
  });

  test('without a mark, and with one attempt for everybody, counters tell nothing', () => {
    expect(isOnTrial({ ...booted(armed, 'B'), trial: undefined }, 'B', 1)).toBe(false);
  });

  test('a slot on trial never counts as fallback, with any counter', () => {
    const counted = { ...armed, attemptsLeft: { A: 3, B: 3 } };
    expect(canSpareInOrder(counted, 'A')).toBe(false);
    expect(canSpareInOrder({ ...counted, trial: { kind: 'none' } }, 'A')).toBe(true);
  });

  test('keeps the exit reason of a slot until that slot is armed or discarded again', () => {
    const left = change(booted(armed, 'B'), 'mark-unbootable', 'B', 'state-unavailable');
    const wordOf = (order: BootOrder): string | undefined => inspectOrder(order).slots.B.lastWord;
    expect(wordOf(left)).toBe('state-unavailable');
    expect(wordOf(change(left, 'commit', 'A'))).toBe('state-unavailable');
    expect(wordOf(change(left, 'mark-unbootable', 'B'))).toBeUndefined();
    expect(wordOf(change(left, 'try-once', 'B'))).toBeUndefined();
  });

  test.each(['', 'C', 'B:', 'B:Not A Code', 'B:x'.repeat(40)])('ignores a foreign mark (%j)', (text) => {
    expect(parseTrialMark(text, plainNames)).toBeUndefined();
  });
});

function parsed(spelling: OrderSpelling, text: string): BootOrder | undefined {
  try {
    return spelling.parse(parseVariables(text));
  } catch (error) {
    if (error instanceof BootloaderError && error.code === 'boot-environment-invalid') return undefined;
    throw error;
  }
}

function isSound({ order, attemptsLeft }: BootOrder): boolean {
  const counted = (['A', 'B'] as const).every(
    (slot) =>
      Number.isInteger(attemptsLeft[slot]) &&
      attemptsLeft[slot] >= 0 &&
      (order.includes(slot) || attemptsLeft[slot] === 0),
  );
  return counted && order.length > 0 && new Set(order).size === order.length;
}
