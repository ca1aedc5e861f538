import { BrokenPacket } from './errors.ts';

/** The beginning of an MQTT control packet: MQTT 5.0, section 2.1; 3.1.1, section 2.2. */
export interface PacketHead {
  /** The first byte: type and flags. */
  readonly first: number;
  /** The number of bytes of type and length. */
  readonly headBytes: number;
  readonly bodyBytes: number;
}

/** A packet of at least this size is large. */
export const LARGE_BYTES = 64 * 1024;
const CONNACK = 0x20;
/** PUBACK, SUBACK, PINGRESP, DISCONNECT. */
const otherFirstBytes: ReadonlySet<number> = new Set([0x40, 0x90, 0xd0, 0xe0]);

/**
 * Undefined: more bytes are needed. `isFirst`: the broker has sent nothing yet. The first byte is checked before the
 * length, since the length of something that is no packet would swallow everything that follows. Throws BrokenPacket.
 */
export function readPacketHead(bytes: Uint8Array, isFirst: boolean): PacketHead | undefined {
  const first = bytes[0];
  if (first === undefined) return undefined;
  checkFirstByte(first, isFirst);
  for (let value = 0, at = 1; at <= 4; at += 1) {
    const byte = bytes[at];
    if (byte === undefined) return undefined;
    value += (byte & 0x7f) * 128 ** (at - 1);
    if (byte >= 0x80) continue;
    if (value >= LARGE_BYTES && !isMessage(first)) {
      throw new BrokenPacket(`a packet of type ${first >> 4} has ${value} bytes`);
    }
    return { first, headBytes: at + 1, bodyBytes: value };
  }
  throw new BrokenPacket('a length is malformed');
}

/** MQTT 5.0, section 3.2: a broker sends CONNACK first, and only once. Only a message has flags. */
function checkFirstByte(first: number, isFirst: boolean): void {
  if (isFirst && first !== CONNACK) throw new BrokenPacket('it does not answer as a broker');
  if (isFirst || isMessage(first) || otherFirstBytes.has(first)) return;
  throw new BrokenPacket(`a packet comes that no one asked for (0x${first.toString(16)})`);
}

/** A message of QoS 2 is none here, since we never asked for one. */
function isMessage(first: number): boolean {
  return first >> 4 === 3 && (first & 0b100) === 0;
}
