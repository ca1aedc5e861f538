import { generateKeyPairSync } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { makeImage, sliceOf } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { writeIntelHex } from '../../../fakes/boards/write-intel-hex.ts';
import { codeOf, elfFile, layouts, mcubootFile, plain, sRecords, text, uf2File } from './build.ts';

describe('reading an image', () => {
  test.each([
    ['intel-hex', (segments) => text(writeIntelHex(makeImage('raw', segments)))],
    ['s-record', (segments) => text(sRecords(segments))],
    ['elf', (segments) => elfFile(segments, 83)],
    ['uf2', (segments) => uf2File(segments, 0x57755a57)],
  ] satisfies [string, (segments: Parameters<typeof sRecords>[0]) => Uint8Array][])(
    'gives back what was written as %s',
    (format, write) => {
      fc.assert(
        fc.property(layouts, (segments) => {
          const image = readImage(write(segments));
          expect(image.format).toBe(format);
          expect(plain(image.segments)).toEqual(plain(segments));
          expect(image.digest).toBe(makeImage('raw', segments).digest);
        }),
        { numRuns: 40 },
      );
    },
  );

  test('of a raw binary has the given address', () => {
    expect(plain(readImage(Uint8Array.of(1, 2, 3), { address: 0x8000, isRaw: true }).segments)).toEqual([
      { address: 0x8000, bytes: [1, 2, 3] },
    ]);
  });

  test.each(['ec', 'ed25519', 'rsa'] as const)('of MCUboot accepts the signature of its %s key', (kind) => {
    const { privateKey, publicKey } =
      kind === 'ec'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : kind === 'rsa'
          ? generateKeyPairSync('rsa', { modulusLength: 2048 })
          : generateKeyPairSync('ed25519');
    const file = mcubootFile(Buffer.from('application'), privateKey);
    expect(readImage(file, { mcubootKey: publicKey }).format).toBe('mcuboot');
  });

  test('joins pieces that touch and keeps gaps', () => {
    const piece = (address: number): { address: number; bytes: Uint8Array } => ({
      address,
      bytes: Uint8Array.of(7, 7),
    });
    const image = makeImage('raw', [piece(4), piece(0), piece(2), piece(9)]);
    expect(image.segments.map(({ address, bytes }) => [address, bytes.byteLength])).toEqual([
      [0, 6],
      [9, 2],
    ]);
    expect([...sliceOf(image, 4, 12)]).toEqual([7, 7, 0xff, 0xff, 0xff, 7, 7, 0xff]);
  });

  test('answers noise of any kind with a McuError, never with anything else', () => {
    const starts = [':10', 'S113', '\u007fELF\u0001\u0001', 'UF2\n', '\u003d\u00b8\u00f3\u0096'].map(text);
    fc.assert(
      fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 1100 }), (start, noise) => {
        expect(codeOf(() => readImage(Buffer.concat([start, noise])))).toMatch(/^(accepted|image-.*)$/);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['an MCUboot image', mcubootFile(Buffer.from('application'))],
    ['a HEX file', text(writeIntelHex(makeImage('raw', [{ address: 16, bytes: Buffer.from('0123456789abcdefXYZ') }])))],
  ])('never takes %s with a flipped bit for one with other contents', (_, whole) => {
    const contents = (file: Uint8Array): string => {
      const [segment] = readImage(file).segments;
      // The TLVs behind an MCUboot image hold the digest and nothing that runs.
      return Buffer.from(segment?.bytes.subarray(0, 32 + 'application'.length) ?? []).toString('hex');
    };
    const right = contents(whole);
    fc.assert(
      fc.property(fc.nat(whole.byteLength - 1), fc.nat(7), (at, bit) => {
        const damaged = Buffer.from(whole);
        damaged.writeUInt8(damaged.readUInt8(at) ^ (1 << bit), at);
        let seen = right;
        const code = codeOf(() => (seen = contents(damaged)));
        expect([code, seen]).toEqual([code, right]);
      }),
      { numRuns: 300 },
    );
  });
});
