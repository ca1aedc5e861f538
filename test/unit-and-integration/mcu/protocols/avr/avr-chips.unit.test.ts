import { createCipheriv } from 'node:crypto';

import { describe, expect, test } from 'vitest';

import { checkFits } from '../../../../../src/mcu/chip.ts';
import type { Chip } from '../../../../../src/mcu/chip.ts';
import { probe } from '../../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import type { Protocol } from '../../../../../src/mcu/protocol.ts';
import { avrChip } from '../../../../../src/mcu/protocols/avr-chips.ts';
import type { AvrBootloader } from '../../../../../src/mcu/protocols/avr-chips.ts';
import { stk500v1 } from '../../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../../src/mcu/protocols/stk500v2.ts';
import { OptibootModel, WiringModel } from '../../../../fakes/boards/models/avr-model.ts';
import { avrElfFile, codeOf, elfFile, intelHex, mcubootFile, sRecords, text } from '../../images/build.ts';
import { chipsFound, program, rigOf } from '../fault-matrix.ts';
import type { Programs, Subject } from '../fault-matrix.ts';

const signal = new AbortController().signal;

function bootBytes(signature: string, bootloader: AvrBootloader, bootloaderBytes?: number): number {
  const { flash, application } = avrChip(Buffer.from(signature, 'hex'), bootloader, { bootloaderBytes });
  return flash.end - application.end;
}

function subjectOf(protocol: Protocol, model: (programs: Programs) => OptibootModel | WiringModel): Subject {
  const programs = { old: new Uint8Array(1024), new: new Uint8Array(1024) };
  return { protocol: () => protocol, model, programs, start: 0, baud: 115_200, mayBlankStart: true, obeysNoise: true };
}

/** Probes a board of this model. */
async function probed(...parts: Parameters<typeof subjectOf>): Promise<unknown> {
  const { board } = rigOf(subjectOf(...parts));
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

  test.each([
    ['1e950f', 'optiboot', 511, 512],
    ['1e9406', 'optiboot', 511, 512],
    ['1e9406', 'atmegaboot', 255, 256],
    ['1e950f', 'wiring', 511, 512],
    ['1e9801', 'wiring', 1023, 1024],
    ['1e950f', 'optiboot', 32_641, 32_640],
    ['1e950f', 'optiboot', 65_536, 32_640],
  ] as const)(
    'of the chip %s with %s cannot be set to %i bytes, which leaves no bootloader or no room, but to %i',
    (signature, kind, wrong, right) => {
      expect(codeOf(() => bootBytes(signature, { kind }, wrong))).toBe('board-unsupported');
      expect(bootBytes(signature, { kind }, right)).toBe(right);
    },
  );
});

/** The start of a chip with Optiboot and this program, and the chip as `probe` finds it. */
async function endWith(bytes: number, optibootSettings?: { bootloaderBytes: number }): Promise<unknown> {
  const filled = new Uint8Array(0x7e00).fill(0xff);
  filled.set(program(bytes, 1));
  const model = (): OptibootModel => new OptibootModel({ programs: { old: filled, new: filled }, pageBytes: 128 });
  return probed(stk500v1(optibootSettings), model);
}

describe('an ATmega328P with Optiboot, which cannot read fuses,', () => {
  test.each([
    [1_000, 0x7000],
    [0x7000, 0x7000],
    [0x7002, 0x7800],
    [0x7802, 0x7e00],
    [0x7e00, 0x7e00],
  ])(
    'with a program of %i bytes has room up to %i, behind which its fuses may begin the boot section',
    async (bytes, end) => {
      expect(await endWith(bytes)).toBe(end);
    },
  );

  test('has the room that the configuration states', async () => {
    expect(await endWith(1_000, { bootloaderBytes: 512 })).toBe(0x7e00);
    expect(await endWith(0x7e00, { bootloaderBytes: 2048 })).toBe(0x7800);
  });
});

test('keeps the boot section of an ATmega328P with ATmegaBOOT, whatever bit of the first answers is flipped', async () => {
  const full = new Uint8Array(0x8000);
  const programs = { old: full, new: full };
  const model = (): OptibootModel => new OptibootModel({ programs, pageBytes: 128 }, [0x1e, 0x95, 0x0f], 1);
  expect([...(await chipsFound(subjectOf(stk500v1(), model)))]).toEqual(['ATmega328P with room up to 30720']);
});

const uno = avrChip(Uint8Array.of(0x1e, 0x95, 0x0f), { kind: 'optiboot' }, {});
const small = avrChip(Uint8Array.of(0x1e, 0x93, 0x0a), { kind: 'optiboot' }, {});

function startOf(chip: Chip, file: Uint8Array, address: number): string {
  return codeOf(() => chip.checkStart?.(readImage(file, { address, isRaw: true })));
}

function words(...given: readonly number[]): Buffer {
  return Buffer.concat([Buffer.from(Uint16Array.from(given).buffer), Buffer.alloc(100)]);
}

const eep = Buffer.concat([Buffer.from('calibration 1.25 A\0'), Buffer.alloc(400)]);

describe('an AVR gets a program', () => {
  test.each([
    ['with vectors, whatever follows', words(...Array.from({ length: 26 }, () => [0x940c, 52]).flat())],
    ['that waits', Buffer.of(0xff, 0xcf)],
    ['that leaves for its bootloader', words(0xc001, 0xcfff, 0x940c, 0x3f00)],
    ['with a text behind its last call', Buffer.concat([words(0x940e, 3, 0xffff, 0xcfff).subarray(0, 8), eep])],
    ['that calls its bootloader', words(0x940e, 0x3f00, 0xcffd)],
    ['in assembler that waits for a pin', words(0x9a25, 0x9b18, 0xcffe, 0xf7e9, 0xcffb)],
    ['in assembler without vectors', words(0xe008, 0xbf0e, 0x9100, 0xc000, 0x94f8, 0x940e, 8, 0xcffa, 0x9508)],
  ])('%s', (_, file) => {
    expect(startOf(uno, file, 0)).toBe('accepted');
  });

  test('with the vectors of a small memory', () => {
    const vectors = words(...Array.from({ length: 26 }, (_, index) => 0xc000 + 25 - index));
    expect(startOf(small, vectors, 0)).toBe('accepted');
    expect(startOf(uno, vectors, 0)).toBe('image-wrong-chip');
  });

  test.each([
    [
      'the vectors of a larger memory',
      'image-wrong-chip',
      words(...Array.from({ length: 26 }, () => [0x940c, 52]).flat()),
    ],
    ['a call behind its first instruction', 'image-unsupported', words(0xe008, 0x940e, 5, 0xcfff, 0xcfff, 0x9508)],
    ['a jump behind its first instruction', 'image-unsupported', words(0xe008, 0x940c, 3, 0xcfff)],
  ])('but not with %s where the chip has neither JMP nor CALL', (_, code, file) => {
    expect(startOf(small, file, 0)).toBe(code);
  });

  test('that jumps backwards around the end of a small memory', () => {
    const image = makeImage('raw', [
      { address: 0, bytes: words(0xce7f) },
      { address: 0x1d00, bytes: Uint8Array.of(0xff, 0xcf) },
    ]);
    expect(codeOf(() => small.checkStart?.(image))).toBe('accepted');
  });
});

describe('an AVR gets no program with an instruction that only larger chips have:', () => {
  const chipOf = (signature: string): Chip => avrChip(Buffer.from(signature, 'hex'), { kind: 'wiring' }, {});
  const [of64, of128, of256] = ['1e960a', '1e9703', '1e9801'].map(chipOf);

  test.each([
    ['ELPM', 0x95d8, [false, true, true]],
    ['ELPM r17, Z', 0x9116, [false, true, true]],
    ['ELPM r0, Z+', 0x9007, [false, true, true]],
    ['EIJMP', 0x9419, [false, false, true]],
    ['EICALL', 0x9519, [false, false, true]],
    ['LPM r0, Z+', 0x9005, [true, true, true]],
    ['MUL', 0x9c00, [true, true, true]],
    ['ICALL', 0x9509, [true, true, true]],
  ])('%s', (_, code, accepts) => {
    // in a function that is called from the program behind the vectors
    const vectors = Array.from({ length: 26 }, () => [0x940c, 52]).flat();
    const file = words(...vectors, 0x940e, 56, 0x940c, 54, 0xe008, code, 0x9508);
    const verdicts = [of64, of128, of256].map((chip) => chip !== undefined && startOf(chip, file, 0) === 'accepted');
    expect(verdicts).toEqual(accepts);
  });

  test('but ignores data, also behind a call that does not return', () => {
    const vectors = Array.from({ length: 26 }, () => [0x940c, 52]).flat();
    const file = words(...vectors, 0x940e, 58, 0x95d8, 0x9419, 0x9006, 0x9519, 0xcfff);
    expect(startOf(uno, file, 0)).toBe('accepted');
  });
});

describe('an AVR gets no data:', () => {
  const segments = [{ address: 0, bytes: eep }];

  test.each([
    ['an .eep file', text(intelHex(segments)), 0],
    ['the same in S-records', text(sRecords(segments)), 0],
    ['the same in ELF', elfFile(segments, 83), 0],
    ['the same raw', eep, 0],
    ['zeros', Buffer.alloc(1024), 0],
    ['an EEPROM whose first cell is free', Buffer.from(`ffff${'0c94'.repeat(20)}`, 'hex'), 0],
    ['a call that is cut', Buffer.of(0x0e, 0x94), 0],
    ['a jump to nothing', words(0x940c, 0x3000), 0],
    ['a branch to nothing', words(0xe008, 0xf5f8, 0xc001), 0],
    ['a call to nothing', words(0xe008, 0x940e, 0x3000, 0xc001), 0],
    ['a branch before the beginning', words(0xe008, 0xf7c1, 0xc001), 0],
    ['an EEPROM with the bits of a jump to a free cell', Buffer.from(`01c0${'ff'.repeat(100)}`, 'hex'), 0],
    ['a jump to data', Buffer.concat([words(0xc013).subarray(0, 40), eep]), 0],
    ['a jump around the beginning into the bootloader', words(0xce7f), 0],
    ['a program elsewhere', program(300, 1), 0x4000],
    ['an image signed for MCUboot', mcubootFile(new Uint8Array(300)), 0],
  ])('%s', (_, file, address) => {
    expect(startOf(uno, file, address)).toBe('image-unsupported');
  });

  test('the EEPROM in an ELF file, with advice', () => {
    const both = [
      { address: 0, bytes: program(300, 1) },
      { address: 0x81_0000, bytes: eep },
    ];
    expect(() => checkFits(readImage(elfFile(both, 83, 5)), uno)).toThrow(
      expect.objectContaining({
        code: 'image-outside-chip',
        advice: 'leave out EEPROM and fuses: avr-objcopy -R .eeprom -R .fuse -R .lock',
      }),
    );
  });
});

describe('an AVR gets a program whose ELF file names', () => {
  const signatures = {
    ATmega8: '1e9307',
    ATmega88: '1e930a',
    ATmega328: '1e9514',
    ATmega328P: '1e950f',
    ATmega328PB: '1e9516',
    ATmega644: '1e9609',
    ATmega644P: '1e960a',
    ATmega1284P: '1e9705',
  };

  test.each([
    ['ATmega8', ['atmega8', 'atmega8a'], ['atmega88', 'attiny85']],
    ['ATmega88', ['atmega88', 'atmega88pa'], ['atmega8', 'atmega48']],
    ['ATmega328', ['atmega328', 'atmega328p'], ['atmega328pb', 'atmega32', '']],
    ['ATmega328P', ['atmega328p', 'atmega328'], ['atmega328pb', 'atmega32u4', 'atmega168p', 'atmega644p']],
    ['ATmega328PB', ['atmega328pb', 'atmega328p'], ['atmega324pb']],
    ['ATmega644', ['atmega644', 'atmega644a'], ['atmega644p', 'atmega644pa']],
    ['ATmega644P', ['atmega644', 'atmega644pa'], ['atmega64', 'atmega324p']],
    ['ATmega1284P', ['atmega1284', 'atmega1284p'], ['atmega128', 'atmega1280']],
  ] as const)('%s or a chip with equal programs: %j, but not %j', (name, same, others) => {
    const chip = avrChip(Buffer.from(signatures[name], 'hex'), { kind: 'optiboot' }, {});
    const verdicts = [...same, ...others].map((device) => {
      const file = avrElfFile([{ address: 0, bytes: program(300, 1) }], device, chip.avrArchitecture);
      return codeOf(() => checkFits(readImage(file), chip));
    });
    expect(verdicts).toEqual([...same.map(() => 'accepted'), ...others.map(() => 'image-wrong-chip')]);
  });

  test('no other chip, and names it', () => {
    const file = avrElfFile([{ address: 0, bytes: program(300, 1) }], 'atmega32u4');
    expect(() => checkFits(readImage(file), uno)).toThrow(
      'the image is made for the AVR atmega32u4, the board is ATmega328P',
    );
  });

  test('its chip only if the file is whole', () => {
    const file = avrElfFile([{ address: 0, bytes: program(300, 1) }], 'atmega328p');
    expect(codeOf(() => readImage(file.subarray(0, -1)))).toBe('image-truncated');
  });
});

test.each([
  ['ATmega88', small, 4_000],
  ['ATmega328P', uno, 8_192],
])('an %s refuses 99 of 100 files of random bytes that are declared as raw', (_, chip, bytes) => {
  const random = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16));
  const codes = Array.from({ length: 2_000 }, () => startOf(chip, random.update(Buffer.alloc(bytes)), 0));
  expect(codes.filter((code) => code === 'accepted').length).toBeLessThan(20);
});

test('stk500v1 refuses a chip with more memory than its addresses reach', async () => {
  const model = (programs: Programs): OptibootModel =>
    new OptibootModel({ programs, pageBytes: 256 }, [0x1e, 0x98, 0x01]);
  await expect(probed(stk500v1(), model)).rejects.toMatchObject({ code: 'board-unsupported' });
});
