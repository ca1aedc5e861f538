import { describe, expect, test } from 'vitest';

import { checkFits } from '../../../../../src/mcu/chip.ts';
import { probe } from '../../../../../src/mcu/flash/flash.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import type { Protocol } from '../../../../../src/mcu/protocol.ts';
import { avrChip } from '../../../../../src/mcu/protocols/avr-chips.ts';
import type { AvrBootloader } from '../../../../../src/mcu/protocols/avr-chips.ts';
import { stk500v1 } from '../../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../../src/mcu/protocols/stk500v2.ts';
import { stm32Chip } from '../../../../../src/mcu/protocols/stm32/stm32-chips.ts';
import { OptibootModel, WiringModel } from '../../../../fakes/boards/models/avr-model.ts';
import { codeOf, mcubootFile } from '../../images/build.ts';
import { rigOf } from '../fault-matrix.ts';
import type { Programs } from '../fault-matrix.ts';

const signal = new AbortController().signal;

function bootBytes(signature: string, bootloader: AvrBootloader, bootloaderBytes?: number): number {
  const { flash, application } = avrChip(Buffer.from(signature, 'hex'), bootloader, { bootloaderBytes });
  return flash.end - application.end;
}

/** Probes a board of this model. */
async function probed(
  protocol: Protocol,
  model: (programs: Programs) => OptibootModel | WiringModel,
): Promise<unknown> {
  const programs = { old: new Uint8Array(1024), new: new Uint8Array(1024) };
  const { board } = rigOf({
    protocol: () => protocol,
    model,
    programs,
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: true,
  });
  return (await probe(board, signal)).chip.application.end;
}

describe('the boot section of an AVR', () => {
  test.each([
    ['ATmega8', '1e9307', 512, 1024],
    ['ATmega88', '1e930a', 512, 2048],
    ['ATmega168', '1e9406', 512, 2048],
    ['ATmega328P', '1e950f', 512, 2048],
    ['ATmega328PB', '1e9516', 512, 4096],
    ['ATmega32', '1e9502', 512, 4096],
    ['ATmega644', '1e9609', 1024, 8192],
    ['ATmega644P', '1e960a', 1024, 8192],
    ['ATmega1280', '1e9703', 1024, 4096],
    ['ATmega1284', '1e9706', 1024, 8192],
    ['ATmega1284P', '1e9705', 1024, 8192],
  ])(
    'of an %s is known for Optiboot and ATmegaBOOT; in doubt it is the largest',
    (_, signature, optiboot, atmegaboot) => {
      expect(bootBytes(signature, { kind: 'optiboot' })).toBe(optiboot);
      expect(bootBytes(signature, { kind: 'atmegaboot' })).toBe(atmegaboot);
    },
  );

  test.each([
    [0xd8, 8192],
    [0xda, 4096],
    [0xdc, 2048],
    [0xde, 1024],
    [0xdf, 8192],
    [undefined, 8192],
  ])('of an ATmega2560 with the high fuse byte %s has %i bytes', async (highFuse, bytes) => {
    const end = await probed(stk500v2(), (programs) => new WiringModel({ programs, pageBytes: 256 }, highFuse));
    expect(end).toBe(256 * 1024 - bytes);
  });

  test('of an ATmega168 is not in the high fuse byte', () => {
    expect(bootBytes('1e9406', { kind: 'wiring', highFuse: 0xde })).toBe(2048);
  });

  test('can be set, and never begins inside of a page', () => {
    expect(bootBytes('1e950f', { kind: 'optiboot' }, 4096)).toBe(4096);
    expect(bootBytes('1e950f', { kind: 'optiboot' }, 700)).toBe(768);
  });
});

test.each([
  ['an AVR', avrChip(Uint8Array.of(0x1e, 0x95, 0x0f), { kind: 'optiboot' }, {})],
  ['an STM32', stm32Chip(0x410, {})],
])('%s does not get an image signed for MCUboot at the address where it starts', (_, chip) => {
  const at = (address: number): string =>
    codeOf(() => checkFits(readImage(mcubootFile(new Uint8Array(300)), { address }), chip));
  expect(at(chip.flash.start)).toBe('image-overwrites-bootloader');
  expect(at(chip.flash.start + 0x4000)).toBe('accepted');
});

test('stk500v1 refuses a chip with more memory than its addresses reach', async () => {
  const model = (programs: Programs): OptibootModel =>
    new OptibootModel({ programs, pageBytes: 256 }, [0x1e, 0x98, 0x01]);
  await expect(probed(stk500v1(), model)).rejects.toMatchObject({ code: 'board-unsupported' });
});
