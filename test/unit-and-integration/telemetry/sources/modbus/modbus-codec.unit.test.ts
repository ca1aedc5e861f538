import fc from 'fast-check';
import { expect, test } from 'vitest';

import {
  crc16,
  hear,
  lackingBytes,
  parsePdu,
  requestPdu,
  rtuFrame,
  tcpFrame,
  tcpFrameLength,
  tcpPdu,
} from '../../../../../src/telemetry/sources/modbus/modbus-codec.ts';
import type { ModbusRegister } from '../../../../../src/telemetry/sources/modbus/modbus-codec.ts';

const register: ModbusRegister = {
  unit: 17,
  table: 'holding',
  address: 0x6b,
  type: 'u16',
  byteOrder: 'big',
  wordOrder: 'big',
};

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const answer = (text: string, function_ = 3): Buffer => {
  const data = Buffer.from(text, 'hex');
  return Buffer.concat([Buffer.of(function_, data.byteLength), data]);
};

test('builds requests as in the specification', () => {
  expect(hex(requestPdu({ ...register, type: 'f32' }))).toBe('03006b0002');
  expect(hex(requestPdu({ ...register, table: 'coil' }))).toBe('01006b0001');
  expect(hex(rtuFrame(0x11, Buffer.from('03006b0003', 'hex')))).toBe('1103006b00037687');
  expect(hex(tcpFrame(1, 17, requestPdu(register)))).toBe('0001000000061103006b0001');
});

test.each([
  ['u16', 'big', 'big', 'ff38', 65_336],
  ['i16', 'big', 'big', 'ff38', -200],
  ['u16', 'little', 'big', '38ff', 65_336],
  ['u32', 'big', 'big', '00010002', 65_538],
  ['u32', 'big', 'little', '00020001', 65_538],
  ['i32', 'little', 'little', 'feffffff', -2],
  ['f32', 'big', 'big', '42280000', 42],
  ['f32', 'big', 'little', '00004228', 42],
  ['f32', 'big', 'big', '41aa6666', 21.3],
  ['f32', 'big', 'big', 'c479f99a', -999.9],
  ['f32', 'big', 'big', '7e967699', 1e38],
  ['f32', 'big', 'big', '3dcccccd', 0.1],
  ['f32', 'big', 'big', '4b800001', 16_777_218],
  ['f32', 'big', 'big', '7fc00000', Number.NaN],
  ['f64', 'big', 'big', '4045000000000000', 42],
  ['u64', 'big', 'big', '0000000100000000', 4_294_967_296],
  ['i64', 'big', 'big', 'fffffffffffffffe', -2],
] as const)('%s, bytes %s, words %s: %s is %d', (...[type, byteOrder, wordOrder, text, value]) => {
  expect(parsePdu(answer(text), { ...register, type, byteOrder, wordOrder })).toBe(value);
});

test.each([
  ['u64', 'ffffffffffffffff', '18446744073709551615'],
  ['i64', '8000000000000001', '-9223372036854775807'],
] as const)('reads each digit of the %s %s', (type, text, digits) => {
  expect(JSON.stringify(parsePdu(answer(text), { ...register, type }))).toBe(digits);
});

test('reads a coil as 0 or 1', () => {
  expect([
    parsePdu(answer('cd', 1), { ...register, table: 'coil' }),
    parsePdu(answer('cc', 1), { ...register, table: 'coil' }),
  ]).toEqual([1, 0]);
});

test.each([
  ['8302', 'has no such address'],
  ['830b', 'the unit behind the gateway is not responding'],
  ['8307', 'exception 7'],
  ['0402ff38', 'an invalid answer'],
  ['0304ff38ff38', 'an invalid answer'],
  ['0302ff', 'an invalid answer'],
])('refuses the answer %s: %s', (text, why) => {
  expect(() => parsePdu(Buffer.from(text, 'hex'), register)).toThrow(why);
});

test('leaves out damaged frames and the answers of other units and requests', () => {
  const request = requestPdu(register);
  const frame = Buffer.from(rtuFrame(17, answer('ff38')));
  expect(hear(frame, 17, request).answer).toEqual(answer('ff38'));
  expect(hear(frame, 18, request)).toMatchObject({ answer: undefined, others: [frame] });
  for (let bit = 0; bit < frame.byteLength * 8; bit += 1) {
    const damaged = Buffer.from(frame);
    damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(hear(damaged, 17, request)).toMatchObject({ answer: undefined, others: [], rest: new Uint8Array(damaged) });
    expect(lackingBytes(damaged, 17, request) === 0).toBe(bit >= 24);
  }
  expect(() => tcpPdu(tcpFrame(1, 17, answer('ff38')), 18)).toThrow('unit 17 answered a request to unit 18');
  expect(() => tcpFrameLength(Buffer.from('HTTP/1.1 400 Bad Request'))).toThrow('does not speak Modbus');
});

const others = fc.oneof(
  fc
    .tuple(fc.constantFrom(1, 2, 3), fc.constantFrom('ff38', '01', '00010002'))
    .map(([unit, text]) => Buffer.from(rtuFrame(unit, answer(text)))),
  fc.constantFrom(answer('00', 1), answer('ff38', 4), answer('00010002')).map((pdu) => Buffer.from(rtuFrame(17, pdu))),
  fc.uint8Array({ maxLength: 4 }).map((bytes) => Buffer.from(bytes)),
  fc.constant(Buffer.from(rtuFrame(17, requestPdu(register)))),
);

test('finds a whole answer after any other bytes, and no partial one', () => {
  fc.assert(
    fc.property(
      fc.array(others, { maxLength: 4 }),
      fc.constantFrom(answer('ff38'), Buffer.of(0x83, 2)),
      (before, pdu) => {
        const bytes = Buffer.concat([...before, rtuFrame(17, pdu)]);
        const heard = hear(bytes, 17, requestPdu(register));
        expect(heard.answer).toEqual(pdu);
        expect(hear(bytes.subarray(0, -1), 17, requestPdu(register)).answer).toBeUndefined();
      },
    ),
  );
});

test('takes a frame of TCP for complete at its length and not before', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 125 }), (data) => {
      const frame = tcpFrame(7, 17, Buffer.concat([Buffer.of(3, data.byteLength), data]));
      for (let cut = 8; cut < frame.byteLength; cut += 1)
        expect(tcpFrameLength(frame.subarray(0, cut))).toBeGreaterThan(cut);
      expect(tcpFrameLength(frame)).toBe(frame.byteLength);
      expect(crc16(rtuFrame(17, frame.subarray(7)))).toBe(0);
    }),
  );
});
