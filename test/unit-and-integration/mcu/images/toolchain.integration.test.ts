import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { checkFits } from '../../../../src/mcu/chip.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { avrChip } from '../../../../src/mcu/protocols/avr-chips.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { buildHello } from '../../../fakes/boards/avr/simulated-avr.ts';
import type { Bootloader } from '../../../fakes/boards/avr/simulated-avr.ts';
import { codeOf } from './build.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolchain-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** The layout that GNU ld chooses if the size of a page leaves room for the headers. */
const headersInSegment = `
PHDRS { code PT_LOAD FILEHDR PHDRS; data PT_LOAD; }
SECTIONS {
  . = 0x1000 + SIZEOF_HEADERS;
  .text ALIGN(0x100) : { *(.text) } :code
  .data 0x800100 : AT(LOADADDR(.text) + SIZEOF(.text)) { *(.data) } :data
}
`;

async function helloElf(bootloader: Bootloader): Promise<string> {
  return buildHello({ version: 1, fillBytes: 600, bootloader });
}

/** Converts the program with avr-objcopy. */
async function converted(...options: readonly string[]): Promise<Buffer> {
  const file = join(folder, 'converted');
  const signal = AbortSignal.timeout(60_000);
  const done = await runProgram(
    ['avr-objcopy', ...options, await helloElf('optiboot'), file],
    { timeoutMs: 30_000 },
    signal,
  );
  expect(done.exitCode).toBe(0);
  return readFile(file);
}

describe('a program of avr-gcc', () => {
  test.each([
    ['intel-hex', ['-O', 'ihex']],
    ['s-record', ['-O', 'srec']],
    ['s-record', ['-O', 'srec', '--srec-forceS3', '--srec-len', '20']],
  ])('is the same as %s by avr-objcopy %j', async (format, options) => {
    const { digest } = readImage(await readFile(await helloElf('optiboot')));
    expect(readImage(await converted(...options))).toMatchObject({ format, digest });
  });

  test.each([
    [['-O', 'verilog'], 'TI-TXT or Verilog hex'],
    [['-O', 'symbolsrec'], 'an S-record file with symbols'],
    [['-O', 'binary'], 'in no known format'],
  ])('is refused as made by avr-objcopy %j', async (options, kind) => {
    const file = await converted(...options);
    expect(() => readImage(file, { address: 0 })).toThrow(`the file is ${kind}`);
  });

  test('is without the headers of its file, which a linker may put into the first segment', async () => {
    const [script, source] = [join(folder, 'headers.ld'), join(folder, 'headers.S')];
    const [elf, hex] = [join(folder, 'headers.elf'), join(folder, 'headers.hex')];
    await writeFile(script, headersInSegment);
    await writeFile(source, '.text\n.fill 100, 2, 0xcfff\n.data\n.byte 1, 2, 3\n');
    const link = ['avr-gcc', '-mmcu=atmega328p', '-nostdlib', `-Wl,-T,${script}`, source, '-o', elf] as const;
    for (const argv of [link, ['avr-objcopy', '-O', 'ihex', elf, hex] as const]) {
      const done = await runProgram(argv, { timeoutMs: 30_000 }, AbortSignal.timeout(60_000));
      expect(done.exitCode).toBe(0);
    }
    const file = await readFile(elf);
    const image = readImage(file);
    expect(image).toMatchObject({ digest: readImage(await readFile(hex)).digest, sizeBytes: 203 });
    const withoutSections = Buffer.from(file);
    withoutSections.writeUInt16LE(0, 48);
    expect(codeOf(() => readImage(withoutSections))).toBe('image-malformed');
  });

  test.each(['atmega328p', 'atmega32u4'])('names its device, %s', async (device) => {
    const [source, elf] = [join(folder, 'empty.c'), join(folder, 'empty.elf')];
    await writeFile(source, 'int main(void) { for (;;); }');
    const argv = ['avr-gcc', `-mmcu=${device}`, source, '-o', elf] as const;
    const done = await runProgram(argv, { timeoutMs: 30_000 }, AbortSignal.timeout(60_000));
    expect(done.exitCode).toBe(0);
    expect(readImage(await readFile(elf)).madeFor).toMatchObject({ avrArchitecture: 5, avrDevice: device });
  });

  test('is for chips of its architecture alone', async () => {
    const small = avrChip(Uint8Array.of(0x1e, 0x95, 0x0f), { kind: 'optiboot' }, {});
    const large = avrChip(Uint8Array.of(0x1e, 0x98, 0x01), { kind: 'wiring' }, {});
    const codes = [];
    for (const bootloader of ['optiboot', 'stk500v2'] as const) {
      const image = readImage(await readFile(await helloElf(bootloader)));
      codes.push([small, large].map((chip) => codeOf(() => checkFits(image, chip))));
    }
    expect(codes).toEqual([
      ['accepted', 'image-wrong-chip'],
      ['image-wrong-chip', 'accepted'],
    ]);
  });
});
