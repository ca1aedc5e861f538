import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { McuError } from '../../../src/mcu/errors.ts';
import { avrChip } from '../../../src/mcu/protocols/avr-chips.ts';
import { espFamilies } from '../../../src/mcu/protocols/esp/esp-chips.ts';
import { stm32Chip } from '../../../src/mcu/protocols/stm32/stm32-chips.ts';

const page = readFileSync(new URL('../../../docs/boards.md', import.meta.url), 'utf8');

/** The names in the row of a protocol. */
function listed(protocol: string, name: RegExp): readonly string[] {
  const row = page.split('\n').find((line) => line.startsWith(`| \`${protocol}\``)) ?? '';
  return [...row.matchAll(name)].map(([found]) => found).sort();
}

function known(count: number, nameOf: (number: number) => string): readonly string[] {
  const names = Array.from({ length: count }, (_, number) => {
    try {
      return [nameOf(number)];
    } catch (error) {
      if (error instanceof McuError && error.code === 'board-unknown') return [];
      throw error;
    }
  });
  return names.flat().sort();
}

test('the page of boards lists every chip that the agent knows', () => {
  const avr = known(0x1_0000, (id) => avrChip(Uint8Array.of(0x1e, id >> 8, id & 0xff), { kind: 'optiboot' }, {}).name);
  expect(listed('stk500v1', /ATmega\w+/g)).toEqual(avr);
  expect(listed('stm32', /STM32[^,|]*[^,| ]/g)).toEqual(
    known(0x1000, (id) => stm32Chip(id, { flashBytes: 32_768 }).name),
  );
  expect(listed('esp', /ESP\w+(?:-\w+)?/g)).toEqual(espFamilies.map(({ name }) => name).sort());
});
