import { crc16 } from '../../crc16.ts';
import { isBoardError } from '../../errors.ts';
import type { Answer } from '../../protocol.ts';
import { decodeCbor, isMap } from '../cbor.ts';
import type { CborMap } from '../cbor.ts';

/** The operation, group, command and sequence number of an SMP message, and its body in CBOR. */
export interface SmpMessage {
  readonly operation: number;
  readonly group: number;
  readonly command: number;
  readonly sequence: number;
  readonly body: Uint8Array;
}

/** The form of SMP messages on a serial line. */
export interface SmpFraming {
  readonly encode: (message: SmpMessage) => Uint8Array;
  /** Returns undefined for anything except an undamaged message. */
  readonly decode: (frame: Uint8Array) => SmpMessage | undefined;
  readonly answer: Answer;
  /** The number of bytes on the wire for a message of this size. */
  readonly wireBytes: (messageBytes: number) => number;
}

const headerBytes = 8;
const firstLine = Uint8Array.of(0x06, 0x09);
const nextLine = Uint8Array.of(0x04, 0x14);
const newline = 0x0a;
/** A line has at most 127 bytes: two that begin it, base64 of 93, and a newline. */
const lineBytes = 93;
const maxAnswerBytes = 2048;

/** Zephyr, "SMP transport over console (UART)": length, message and CRC-16/XMODEM in base64, cut into lines. */
export const consoleFraming: SmpFraming = {
  encode: (message) => {
    const packet = encodeMessage(message);
    const framed = Buffer.alloc(packet.byteLength + 4);
    framed.writeUInt16BE(packet.byteLength + 2, 0);
    framed.set(packet, 2);
    framed.writeUInt16BE(crc16(packet), packet.byteLength + 2);
    const lines: Uint8Array[] = [];
    for (let from = 0; from < framed.byteLength; from += lineBytes) {
      const text = framed.subarray(from, from + lineBytes).toString('base64');
      lines.push(from === 0 ? firstLine : nextLine, Buffer.from(text, 'latin1'), Uint8Array.of(newline));
    }
    return Buffer.concat(lines);
  },
  decode: (frame) => {
    const packet = Buffer.from([...packetsIn(frame)].at(-1)?.text ?? '', 'base64');
    if (packet.byteLength < 2 + headerBytes + 2) return undefined;
    const length = packet.readUInt16BE(0);
    if (packet.byteLength < length + 2 || length < headerBytes + 2) return undefined;
    const message = packet.subarray(2, length);
    return crc16(packet.subarray(2, 2 + length)) === 0 ? decodeMessage(message) : undefined;
  },
  answer: { atMost: maxAnswerBytes, length: consoleLength },
  wireBytes: (messageBytes) => {
    const lines = Math.ceil((messageBytes + 4) / lineBytes);
    return Math.ceil((messageBytes + 4) / 3) * 4 + lines * 3;
  },
};

/** MCUboot's BOOT_SERIAL_RAW_PROTOCOL and Zephyr's "SMP over raw UART": the messages themselves. */
export const rawFraming: SmpFraming = {
  encode: encodeMessage,
  decode: decodeMessage,
  answer: {
    atMost: maxAnswerBytes,
    length: (received) => {
      if (received.byteLength < headerBytes) return 0;
      const length = headerBytes + Buffer.from(received).readUInt16BE(2);
      return received.byteLength >= length ? length : 0;
    },
  },
  wireBytes: (messageBytes) => messageBytes,
};

/**
 * Encodes a message with version 1 of the header, which all servers understand (Zephyr, "SMP Protocol Specification").
 */
function encodeMessage({ operation, group, command, sequence, body }: SmpMessage): Buffer {
  const packet = Buffer.alloc(headerBytes + body.byteLength);
  packet.writeUInt8(operation, 0);
  packet.writeUInt16BE(body.byteLength, 2);
  packet.writeUInt16BE(group, 4);
  packet.writeUInt8(sequence, 6);
  packet.writeUInt8(command, 7);
  packet.set(body, headerBytes);
  return packet;
}

function decodeMessage(packet: Uint8Array): SmpMessage | undefined {
  if (packet.byteLength < headerBytes) return undefined;
  const bytes = Buffer.from(packet);
  const end = headerBytes + bytes.readUInt16BE(2);
  if (bytes.byteLength < end) return undefined;
  return {
    operation: bytes.readUInt8(0) & 0x07,
    group: bytes.readUInt16BE(4),
    command: bytes.readUInt8(7),
    sequence: bytes.readUInt8(6),
    body: bytes.subarray(headerBytes, end),
  };
}

/** Joins the lines of a packet, and skips text between packets, which a console may print. `end`: of the last line. */
function* packetsIn(frame: Uint8Array): Generator<{ readonly text: string; readonly end: number }> {
  let [text, end] = ['', 0];
  for (const line of Buffer.from(frame).toString('latin1').split('\n')) {
    end += line.length + 1;
    const first = line.lastIndexOf('\u0006\u0009');
    const next = line.lastIndexOf('\u0004\u0014');
    if (first < 0 && (next < 0 || text === '')) continue;
    text = first >= 0 ? line.slice(first + 2) : text + line.slice(next + 2);
    yield { text, end };
  }
}

/** Returns the length including the line that completes the first packet. */
function consoleLength(received: Uint8Array): number {
  const lines = received.subarray(0, received.lastIndexOf(newline) + 1);
  for (const { text, end } of packetsIn(lines)) {
    const [high = Infinity, low = 0] = Buffer.from(text.slice(0, 4), 'base64');
    if (Buffer.byteLength(text, 'base64') >= high * 256 + low + 2) return end;
  }
  return 0;
}

/** Returns the map in the body of a message, or undefined if it is damaged, or not a map. */
export function mapIn(body: Uint8Array): CborMap | undefined {
  try {
    const value = decodeCbor(body);
    return isMap(value) ? value : undefined;
  } catch (error) {
    if (isBoardError(error)) return undefined;
    throw error;
  }
}
