import { BrokenPacket } from './errors.ts';

/** The beginning of an MQTT control packet: MQTT 5.0, section 2.1; 3.1.1, section 2.2. */
export interface PacketHead {
  /** Its type and flags. */
  readonly first: number;
  /** First byte and length. */
  readonly headBytes: number;
  readonly bodyBytes: number;
}

/** From here on a packet is large. */
export const LARGE_BYTES = 64 * 1024;
const CONNACK = 0x20;
/** PUBACK, SUBACK, PINGRESP, DISCONNECT. */
const otherFirstBytes: ReadonlySet<number> = new Set([0x40, 0x90, 0xd0, 0xe0]);

/**
 * Undefined: more bytes are needed. `isFirst`: the broker has said nothing yet. Of what is no head of a packet the length would
 * swallow what follows, so it is judged by its first byte. Throws BrokenPacket.
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

/** MQTT 5.0, section 3.2: a broker answers CONNECT first, and once. Only a message has flags. */
function checkFirstByte(first: number, isFirst: boolean): void {
  if (isFirst && first !== CONNACK) throw new BrokenPacket('it does not answer as a broker');
  if (isFirst || isMessage(first) || otherFirstBytes.has(first)) return;
  throw new BrokenPacket(`a packet comes that no one asked for (0x${first.toString(16)})`);
}

/** None of QoS 2 was asked for. */
function isMessage(first: number): boolean {
  return first >> 4 === 3 && (first & 0b100) === 0;
}
