import { parseExactly } from '../../../system/json-value.ts';
import { sourceFailed } from '../source.ts';
import type { Reading } from '../source.ts';

/**
 * Sources: Modbus Application Protocol Specification V1.1b3 (functions 1 to 4), Modbus Messaging on TCP/IP
 * Implementation Guide V1.0b (MBAP header), Modbus over Serial Line V1.02 (RTU, CRC-16).
 */

export const modbusTables = { coil: 1, 'discrete-input': 2, holding: 3, input: 4 } as const;
export type ModbusTable = keyof typeof modbusTables;

export type ModbusType = 'u16' | 'i16' | 'u32' | 'i32' | 'f32' | 'u64' | 'i64' | 'f64';

export interface ModbusRegister {
  readonly unit: number;
  readonly table: ModbusTable;
  readonly address: number;
  /** The type of registers; a coil or a discrete input is 0 or 1. */
  readonly type: ModbusType;
  /** `big`: most significant byte first, as in the specification. */
  readonly byteOrder: 'big' | 'little';
  /** The order of several registers; `big`: the most significant one first. */
  readonly wordOrder: 'big' | 'little';
}

const TCP_HEADER_BYTES = 7;
const MAX_PDU_BYTES = 253;

export function wordsOf(type: ModbusType): number {
  return Number(type.slice(1)) / 16;
}

/** True if a value of this table is 0 or 1. */
export function isBit(table: ModbusTable): boolean {
  return table === 'coil' || table === 'discrete-input';
}

/** Returns the number of registers or bits that hold the value. */
export function countOf({ table, type }: Pick<ModbusRegister, 'table' | 'type'>): number {
  return isBit(table) ? 1 : wordsOf(type);
}

/** A reading request: function, address, count. */
export function requestPdu(register: ModbusRegister): Uint8Array {
  const pdu = Buffer.alloc(5);
  pdu.writeUInt8(modbusTables[register.table], 0);
  pdu.writeUInt16BE(register.address, 1);
  pdu.writeUInt16BE(countOf(register), 3);
  return pdu;
}

/** Returns the value in a response: a number, or an ExactNumber. Throws TelemetryError. */
export function parsePdu(pdu: Uint8Array, register: ModbusRegister): Reading {
  const bytes = Buffer.from(pdu);
  const [code = 0, count = 0] = bytes;
  const wanted = modbusTables[register.table];
  if (code === (wanted | 0x80)) throw modbusFailed(register, exceptionText(count));
  const size = isBit(register.table) ? 1 : wordsOf(register.type) * 2;
  if (code !== wanted || count !== size || bytes.byteLength !== size + 2) {
    throw modbusFailed(register, `an invalid answer: ${bytes.subarray(0, 16).toString('hex')}`);
  }
  const data = bytes.subarray(2);
  return isBit(register.table) ? (data[0] ?? 0) & 1 : decode(data, register);
}

const exceptions: readonly (string | undefined)[] = [
  undefined,
  'the device does not know this function',
  'the device has no such address',
  'the device does not accept the request',
  'the device failed',
  'the device takes longer',
  'the device is busy',
  undefined,
  'the device has a memory error',
  undefined,
  'the gateway has no way to the unit',
  'the unit behind the gateway is not responding',
];

function exceptionText(exception: number): string {
  return exceptions[exception] ?? `exception ${exception}`;
}

function decode(data: Buffer, { type, byteOrder, wordOrder }: ModbusRegister): Reading {
  const words = byteOrder === 'big' ? data : Buffer.from(data).swap16();
  const bytes = wordOrder === 'big' ? words : Buffer.from(words.toReversed()).swap16();
  const bits = bytes.byteLength * 8;
  if (type === 'f32') return shortest(bytes.readFloatBE());
  if (type === 'f64') return bytes.readDoubleBE();
  if (bits === 64) return parseExactly(String(type === 'u64' ? bytes.readBigUInt64BE() : bytes.readBigInt64BE()));
  return type.startsWith('u') ? bytes.readUIntBE(0, bits / 8) : bytes.readIntBE(0, bits / 8);
}

/** Returns the decimal with the fewest digits that is the same 32-bit float: 21.3, and not 21.299999237060547. */
function shortest(float: number): number {
  const decimals = [6, 7, 8].map((digits) => Number(float.toPrecision(digits)));
  return decimals.find((decimal) => Math.fround(decimal) === float) ?? Number(float.toPrecision(9));
}

// ------------------------------------------------------------------------------------------------------------- TCP

export function tcpFrame(transaction: number, unit: number, pdu: Uint8Array): Uint8Array {
  const frame = Buffer.alloc(TCP_HEADER_BYTES + pdu.byteLength);
  frame.writeUInt16BE(transaction, 0);
  frame.writeUInt16BE(pdu.byteLength + 1, 4);
  frame.writeUInt8(unit, 6);
  frame.set(pdu, TCP_HEADER_BYTES);
  return frame;
}

/** Returns the length of the frame, or of its header until that is complete. Throws TelemetryError for a stream that is not Modbus. */
export function tcpFrameLength(bytes: Uint8Array): number {
  if (bytes.byteLength < TCP_HEADER_BYTES) return TCP_HEADER_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset, TCP_HEADER_BYTES); // no copy: many frames may be unread
  const length = view.getUint16(4);
  if (view.getUint16(2) !== 0 || length < 3 || length > MAX_PDU_BYTES + 1) {
    throw sourceFailed('modbus', 'what answers does not speak Modbus TCP');
  }
  return 6 + length;
}

/** Returns the PDU of a frame. Throws TelemetryError for a frame of another unit. */
export function tcpPdu(frame: Uint8Array, unit: number): Uint8Array {
  if (frame[6] !== unit) throw sourceFailed('modbus', `unit ${frame[6]} answered a request to unit ${unit}`);
  return frame.subarray(TCP_HEADER_BYTES);
}

// ------------------------------------------------------------------------------------------------------------- RTU

/** CRC-16: polynomial 0xA001, reflected, initial value 0xFFFF. It is sent with the low byte first. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0xffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1) === 0 ? crc >>> 1 : (crc >>> 1) ^ 0xa001;
  }
  return crc;
}

export function rtuFrame(unit: number, pdu: Uint8Array): Uint8Array {
  const body = Buffer.concat([Buffer.of(unit), pdu]);
  const check = Buffer.alloc(2);
  check.writeUInt16LE(crc16(body));
  return Buffer.concat([body, check]);
}

/** The bytes that arrived on a line after a request, taken apart. */
export interface Heard {
  /** The PDU of the answer. */
  readonly answer: Uint8Array | undefined;
  /** Answers to other requests, and further ones to this request. */
  readonly others: readonly Uint8Array[];
  /** The request itself came back. */
  readonly isEchoed: boolean;
  /** Bytes of no whole frame. */
  readonly rest: Uint8Array;
}

/**
 * Finds the answer to a request: its unit, its function, and its length or an exception. A line is shared, so an echo of
 * the request, stray bytes and answers to other requests may come before it. Pure.
 */
export function hear(bytes: Uint8Array, unit: number, request: Uint8Array): Heard {
  const echo = rtuFrame(unit, request);
  const others: Uint8Array[] = [];
  const rest: number[] = [];
  let isEchoed = false;
  let answer: Uint8Array | undefined;
  for (let at = 0; at < bytes.byteLength;) {
    const from = bytes.subarray(at);
    const frame = startsWith(from, echo) ? echo : wholeAnswer(from);
    if (frame === echo) isEchoed = true;
    else if (frame === undefined) rest.push(from[0] ?? 0);
    else if (answer === undefined && isAnswer(frame, unit, request)) answer = frame.subarray(1, -2);
    else others.push(frame);
    at += frame?.byteLength ?? 1;
  }
  return { answer, others, isEchoed, rest: Uint8Array.from(rest) };
}

/** Returns the number of bytes that the answer still lacks, or undefined if the bytes do not begin like the answer. */
export function lackingBytes(bytes: Uint8Array, unit: number, request: Uint8Array): number | undefined {
  if (!isAnswer(bytes, unit, request)) return undefined;
  return (((bytes[1] ?? 0) & 0x80) === 0 ? 5 + answerBytes(request) : 5) - bytes.byteLength;
}

/** The frame of an answer that the bytes begin with: unit, function, count, data, CRC. An exception has one byte of data. */
function wholeAnswer(bytes: Uint8Array): Uint8Array | undefined {
  const [, code = 0, count = 0] = bytes;
  const isReading = (code & 0x7f) >= 1 && (code & 0x7f) <= 4;
  const length = (code & 0x80) === 0 ? 5 + count : 5;
  const frame = bytes.subarray(0, length);
  return isReading && frame.byteLength === length && crc16(frame) === 0 ? frame : undefined;
}

/** True if a frame has the unit, function and length of the answer to a request, or is an exception to it. */
export function isAnswer([unit, code, count]: Uint8Array, wanted: number, request: Uint8Array): boolean {
  const asked = request[0] ?? 0;
  return unit === wanted && (code === (asked | 0x80) || (code === asked && count === answerBytes(request)));
}

/** The bytes of data in the answer. */
function answerBytes(request: Uint8Array): number {
  const count = Buffer.from(request).readUInt16BE(3);
  return (request[0] ?? 0) <= modbusTables['discrete-input'] ? Math.ceil(count / 8) : count * 2;
}

function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  return Buffer.compare(bytes.subarray(0, start.byteLength), start) === 0;
}

/**
 * Returns the PDU, or throws TelemetryError for an exception by which a gateway reports that no unit answers (Modbus
 * Application Protocol V1.1b3, 7).
 */
export function requireAnswerOf(unit: number, pdu: Uint8Array): Uint8Array {
  const [code = 0, exception = 0] = pdu;
  const isOfGateway = (code & 0x80) !== 0 && (exception === 10 || exception === 11);
  if (isOfGateway) throw sourceFailed(`modbus unit ${unit}`, exceptionText(exception));
  return pdu;
}

function modbusFailed({ unit, table, address }: ModbusRegister, why: string): Error {
  return sourceFailed(`modbus unit ${unit}, ${table} ${address}`, why);
}
