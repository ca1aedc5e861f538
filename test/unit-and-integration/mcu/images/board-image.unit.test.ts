import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { describe, expect, test } from 'vitest';

import { BoardStore } from '../../../../src/mcu/flash/board-store.ts';
import { boardImageReader } from '../../../../src/mcu/images/board-image.ts';
import { createMcuTarget } from '../../../../src/mcu/mcu-target.ts';
import { evidenceOfKept } from '../../../../src/update/evidence.ts';
import { espImage } from '../../../fakes/boards/models/esp-image.ts';
import { espSubject } from '../protocols/esp-subject.ts';
import { program, rigOf } from '../protocols/fault-matrix.ts';
import { intelHex, mcubootFile, text } from './build.ts';

const signal = new AbortController().signal;
const raw = program(300, 1);
const hex = text(intelHex([{ address: 0x1_0000 - 300, bytes: raw }]));

interface Settings {
  readonly format?: 'raw';
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'accepted',
    (error: unknown) => (error as { code: unknown }).code,
  );
}

function reader({ format }: Settings = {}): ReturnType<typeof boardImageReader> {
  return boardImageReader({ protocol: 'esp', address: 0x2_0000, format, mcubootKeyFile: undefined });
}

test('reads a raw binary for a receiver of XMODEM without an address, which the protocol lacks', async () => {
  const of = { address: undefined, format: undefined, mcubootKeyFile: undefined };
  const image = await boardImageReader({ ...of, protocol: 'xmodem' })(raw, 'meter.bin');
  expect(image.segments).toEqual([{ address: 0, bytes: raw }]);
  await expect(boardImageReader({ ...of, protocol: 'stm32' })(raw, 'meter.bin')).rejects.toMatchObject({
    code: 'image-address-missing',
  });
});

test('refuses a file with a gap for a receiver of XMODEM when it is read', async () => {
  const settings = { protocol: 'xmodem', address: undefined, format: undefined, mcubootKeyFile: undefined } as const;
  const file = text(':0100000001FE\n:0100020001FC\n:00000001FF\n');
  await expect(boardImageReader(settings)(file, 'meter.hex')).rejects.toMatchObject({ code: 'image-unsupported' });
  expect((await reader()(file, 'meter.hex')).segments).toHaveLength(2);
});

describe('a board with MCUboot', () => {
  const smp = boardImageReader({ protocol: 'smp', address: undefined, format: undefined, mcubootKeyFile: undefined });

  test.each([
    ['image-wrong-chip', 'a raw binary', 'meter.bin', raw],
    ['image-wrong-chip', 'an ESP image', 'meter.bin', espImage(raw)],
    ['image-wrong-chip', 'an Intel HEX file', 'meter.hex', hex],
    [
      'image-unknown',
      `in no known format: it begins with ${Buffer.from(raw.subarray(0, 8)).toString('hex')}`,
      'meter.img',
      raw,
    ],
    ['image-unknown', 'a gzip file', 'meter.bin', gzipSync(raw)],
  ])('refuses with %s and advice on signing: %s', async (code, what, name, file) => {
    await expect(smp(file, name)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(`the file is ${what}`) as string,
      advice: 'give the signed binary (zephyr.signed.bin), or sign the application: imgtool sign',
    });
  });

  test('takes a signed image under any name', async () => {
    expect((await smp(mcubootFile(raw), 'meter')).format).toBe('mcuboot');
  });

  test('ends an upload with the TLVs of the image, and refuses a trailer or a second image behind them', async () => {
    const file = mcubootFile(raw);
    const filled = Buffer.concat([file, Buffer.alloc(64, 0xff)]);
    const [segment] = (await smp(filled, 'meter')).segments;
    expect(Buffer.from(segment?.bytes ?? [])).toEqual(Buffer.from(file));
    const trailer = Buffer.from('77c295f360d2ef7f3552500f2cb67980', 'hex'); // boot_magic of MCUboot, image_ok is before it
    for (const rest of [Buffer.concat([Buffer.alloc(64, 0xff), trailer]), file])
      await expect(smp(Buffer.concat([file, rest]), 'meter')).rejects.toMatchObject({
        code: 'image-unsupported',
        advice: 'sign the image without --pad and --confirm',
      });
  });
});

describe('a file of no known format', () => {
  test.each([
    ['accepted', 'meter.bin', {}],
    ['accepted', 'METER.BIN', {}],
    ['accepted', 'meter.img', { format: 'raw' }],
    ['image-unknown', 'meter.hex', {}],
    ['image-unknown', 'meter', {}],
    ['image-unknown', 'meter.bin.part', {}],
  ] as const)('is %s as a raw binary under the name %s with %j', async (code, fileName, settings) => {
    expect(await codeOf(reader(settings)(raw, fileName))).toBe(code);
  });

  test('is read as the known format that it has, whatever its name is', async () => {
    expect((await reader()(hex, 'meter.bin')).format).toBe('intel-hex');
    expect((await reader({ format: 'raw' })(hex, 'meter.hex')).format).toBe('intel-hex');
  });

  test('of an update is rejected during staging; a staged one is flashed without its name', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'board-image-'));
    const rig = rigOf(espSubject);
    const store = new BoardStore(directory);
    const target = createMcuTarget({ board: rig.board, port: '/dev/null', store, readImage: reader() });
    const stage = async (fileName: string, bytes: Uint8Array): Promise<string> => {
      const payload = { fileName, target: { name: 'meter' } };
      await using writer = await target.openFile({ payload, sizeBytes: bytes.byteLength, resumeAt: undefined }, signal);
      await writer.write(bytes);
      return (await writer.finish(signal)).digest;
    };
    expect(await codeOf(stage('meter.hex', raw))).toBe('image-unknown');
    expect(await codeOf(stage('meter.bin', text('<!doctype html>')))).toBe('image-unknown');
    expect(rig.model.ran).toEqual([]);
    const digest = await stage('meter.bin', raw);
    const evidence = evidenceOfKept({ target: 'board', recorded: digest, found: digest });
    await target.flash({ digest, onProgress: () => {} }, evidence, signal);
    expect((await store.flashed())?.image.segments[0]?.address).toBe(0x2_0000);
    await rm(directory, { recursive: true });
  });
});
