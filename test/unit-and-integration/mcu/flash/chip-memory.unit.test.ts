import { expect, test } from 'vitest';

import { joined } from '../../../../src/mcu/flash/chip-memory.ts';
import type { Unit } from '../../../../src/mcu/flash/chip-memory.ts';

const unitBytes = 4;

function unitsAt(...starts: readonly number[]): Unit[] {
  return starts.map((start) => ({
    region: { start, end: start + unitBytes },
    bytes: new Uint8Array(unitBytes).fill(start),
  }));
}

test('neighbours between two multiples are one run, with the bytes of all', () => {
  const runs = joined(unitsAt(4, 8, 12, 16, 20, 28), 16);
  expect(runs.map(({ region }) => region)).toEqual([
    { start: 4, end: 16 },
    { start: 16, end: 24 },
    { start: 28, end: 32 },
  ]);
  expect([...(runs[1]?.bytes ?? [])]).toEqual([16, 16, 16, 16, 20, 20, 20, 20]);
});

test('without a length of runs every unit is a run of its own', () => {
  expect(joined(unitsAt(4, 8), 0).map(({ units }) => units.length)).toEqual([1, 1]);
});
