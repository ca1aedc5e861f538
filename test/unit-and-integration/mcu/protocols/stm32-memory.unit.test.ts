import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { McuError } from '../../../../src/mcu/errors.ts';
import type { Conversation } from '../../../../src/mcu/protocol.ts';
import { blockBytes, Stm32Memory } from '../../../../src/mcu/protocols/stm32/stm32-memory.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { program } from './fault-matrix.ts';

const start = 0x0800_0000;
const flashBytes = 1024 * 1024;
const ack = 0x79;
const nack = 0x1f;
const block = program(blockBytes, 1);
const understood = [ack, ack, ack, ...block];
const refused = [nack];

/** Returns the output of a conversation with these replies, in order; the last one repeats. */
function said(conversation: Conversation<unknown>, ...answers: readonly (readonly number[])[]): readonly Uint8Array[] {
  const sent: Uint8Array[] = [];
  try {
    for (let step = conversation.next(); step.done !== true;) {
      if (step.value.kind !== 'exchange') throw new Error(`not an exchange: ${step.value.kind}`);
      const bytes = Uint8Array.from(answers[sent.length] ?? answers.at(-1) ?? []);
      sent.push(step.value.send);
      step = conversation.next({ bytes, whole: step.value.answer.length(bytes) > 0 });
    }
  } catch (error) {
    if (!(error instanceof McuError)) throw error;
  }
  return sent;
}

function memoryWithBursts(): Stm32Memory {
  const memory = new Stm32Memory();
  said(memory.tryBursts(start, block), understood);
  return memory;
}

function turnsOfRead(memory: Stm32Memory, ...answers: readonly (readonly number[])[]): number {
  return said(memory.read(start, blockBytes), ...answers).length;
}

const partsOfRead = [[ack], [ack], [ack, ...block]];

describe('the parts of a command', () => {
  test('go one by one until a burst was understood, and for less than a block', () => {
    expect(turnsOfRead(new Stm32Memory(), ...partsOfRead)).toBe(3);
    const memory = memoryWithBursts();
    expect(turnsOfRead(memory, understood)).toBe(1);
    expect(said(memory.read(start, 4), ...partsOfRead)).toHaveLength(3);
    expect(said(memory.read(start + 4, blockBytes), ...partsOfRead)).toHaveLength(3);
    expect(said(memory.write(start, block), [ack, ack], [ack])).toHaveLength(2);
  });

  test.each([
    ['is refused', refused],
    ['reads something else', [ack, ack, ack, ...program(blockBytes, 2)]],
  ])('go one by one where the burst that was tried %s', (_, answer) => {
    const memory = new Stm32Memory();
    said(memory.tryBursts(start, block), answer);
    expect(turnsOfRead(memory, ...partsOfRead)).toBe(3);
  });

  test('go one by one after two bursts in a row that failed, not after two in all', () => {
    const memory = memoryWithBursts();
    for (const answer of [refused, understood, refused, understood, refused]) turnsOfRead(memory, answer);
    expect(turnsOfRead(memory, refused)).toBe(1);
    expect(turnsOfRead(memory, ...partsOfRead)).toBe(3);
  });
});

interface Damage {
  readonly kind: 'drop' | 'insert' | 'flip';
  readonly at: number;
  readonly byte: number;
  readonly bit: number;
}

const damage: fc.Arbitrary<Damage> = fc.record({
  kind: fc.constantFrom('drop', 'insert', 'flip'),
  at: fc.nat({ max: 8 }),
  byte: fc.integer({ min: 0, max: 255 }),
  bit: fc.nat({ max: 7 }),
});

function damaged(bytes: Uint8Array, { kind, at, byte, bit }: Damage): readonly number[] {
  const all = [...bytes];
  if (kind === 'flip' && at < all.length) all[at] = (all[at] ?? 0) ^ (1 << bit);
  if (kind === 'drop') all.splice(at, 1);
  if (kind === 'insert') all.splice(at, 0, byte);
  return all;
}

test('a burst with a byte lost, added or changed never changes the chip nor starts it', () => {
  const address = fc.nat({ max: flashBytes / blockBytes - 1 }).map((index) => start + index * blockBytes);
  fc.assert(
    fc.property(address, fc.boolean(), damage, (at, isRead, how) => {
      const memory = memoryWithBursts();
      const [burst] = said(isRead ? memory.read(at, blockBytes) : memory.write(at, block), refused);
      const before = program(flashBytes / 64, 3);
      const model = new Stm32Model({ programs: { old: before, new: before }, pageBytes: 1024, productId: 0x410 });
      model.reset(0);
      const arriving = [0x7f, ...damaged(burst ?? new Uint8Array(), how)];
      for (const [index, byte] of arriving.entries()) model.receive(byte, index + 1);
      expect(model.ran).toEqual([]);
      expect(model.violations).toEqual([]);
      expect(Buffer.compare(model.memory, before)).toBe(0);
    }),
    { numRuns: 500 },
  );
});
