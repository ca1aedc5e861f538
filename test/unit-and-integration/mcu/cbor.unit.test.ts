import fc from 'fast-check';
import { expect, test } from 'vitest';

import { crc16 } from '../../../src/mcu/crc16.ts';
import { McuError } from '../../../src/mcu/errors.ts';
import { decodeCbor, encodeCbor } from '../../../src/mcu/protocols/cbor.ts';
import type { Cbor } from '../../../src/mcu/protocols/cbor.ts';

const fromHex = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

// RFC 8949, appendix A.
test.each<[string, Cbor]>([
  ['00', 0],
  ['17', 23],
  ['1818', 24],
  ['1903e8', 1000],
  ['1a000f4240', 1_000_000],
  ['20', -1],
  ['3903e7', -1000],
  ['f4', false],
  ['f5', true],
  ['60', ''],
  ['6449455446', 'IETF'],
  ['83010203', [1, 2, 3]],
  ['a26161016162820203', { a: 1, b: [2, 3] }],
  ['a0', {}],
])('%s is the one encoding of its value', (hex, value) => {
  expect(Buffer.from(encodeCbor(value)).toString('hex')).toBe(hex);
  expect(decodeCbor(fromHex(hex))).toEqual(value);
});

test.each<[string, Cbor]>([
  ['9f018202039f0405ffff', [1, [2, 3], [4, 5]]],
  ['bf61610161629f0203ffff', { a: 1, b: [2, 3] }],
  ['7f657374726561646d696e67ff', 'streaming'],
])('%s, of indefinite length, is understood', (hex, value) => {
  expect(decodeCbor(fromHex(hex))).toEqual(value);
});

test('bytes come back as they were', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
      const back = decodeCbor(encodeCbor({ data: bytes, len: bytes.byteLength }));
      expect(back).toEqual({ data: Buffer.from(bytes), len: bytes.byteLength });
    }),
  );
});

test('noise is answered with a McuError or a value, and ends', () => {
  const outcome = (bytes: Uint8Array): string => {
    try {
      decodeCbor(bytes);
      return 'value';
    } catch (error) {
      if (error instanceof McuError) return error.code;
      throw error;
    }
  };
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      expect(outcome(bytes)).toMatch(/^(value|board-bad-response)$/);
    }),
    { numRuns: 1_000 },
  );
  expect(outcome(new Uint8Array(1_000).fill(0x9f))).toBe('board-bad-response');
});

test('the CRC matches XMODEM', () => {
  expect(crc16(Buffer.from('123456789'))).toBe(0x31c3);
});
