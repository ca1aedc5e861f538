/** The beginning of an MQTT control packet: MQTT 5.0, sections 2.1 and 3.3.2; 3.1.1, sections 2.2 and 3.3.2. */
export type PacketHead =
  | { readonly kind: 'small'; readonly packetBytes: number }
  | {
      readonly kind: 'large-publish';
      readonly topic: string;
      readonly retain: boolean;
      /** The packet's first byte: its type and flags. */
      readonly first: number;
      /** Topic, packet identifier and properties, as they were received. */
      readonly variableHeader: Uint8Array;
      /** Where the content begins. */
      readonly headBytes: number;
      readonly contentBytes: number;
    };

/** The broker does not keep to MQTT, or sends what no broker sends. */
export class BrokenPacket extends Error {}

/** From here on a packet is large. */
export const LARGE_BYTES = 64 * 1024;
/** A topic of the longest kind, and properties beside it. */
const MAX_HEAD_BYTES = 128 * 1024;
const CONNACK = 2;
const PUBLISH = 3;
/** What a broker sends: MQTT 5.0, section 2.1.2. True: with a packet identifier at its beginning. */
const knownTypes: ReadonlyMap<number, boolean> = new Map([
  [CONNACK, false],
  [PUBLISH, false],
  [4, true], // PUBACK
  [9, true], // SUBACK
  [11, true], // UNSUBACK
  [13, false], // PINGRESP
  [14, false], // DISCONNECT
  [15, false], // AUTH
]);

/** Undefined: more bytes are needed. A small packet is judged when all of it is there. */
export function readPacketHead(bytes: Uint8Array, protocolVersion: 4 | 5): PacketHead | undefined {
  const first = bytes[0];
  if (first === undefined) return undefined;
  checkType(first);
  const remaining = readVariableInteger(bytes, 1);
  if (remaining === undefined) return undefined;
  const end = remaining.end + remaining.value;
  if (remaining.value < LARGE_BYTES) {
    if (bytes.byteLength < end) return undefined;
    checkSmallPacket(first, bytes.subarray(remaining.end, end));
    return { kind: 'small', packetBytes: end };
  }
  if (first >> 4 !== PUBLISH) throw new BrokenPacket(`a packet of type ${first >> 4} has ${remaining.value} bytes`);
  const headBytes = findContent(bytes, remaining.end, first, protocolVersion);
  if (headBytes === undefined && bytes.byteLength < Math.min(end, MAX_HEAD_BYTES)) return undefined;
  if (headBytes === undefined || headBytes > Math.min(end, MAX_HEAD_BYTES))
    throw new BrokenPacket('the header of a message is too long');
  const variableHeader = bytes.slice(remaining.end, headBytes);
  return {
    kind: 'large-publish',
    topic: Buffer.from(variableHeader.subarray(2, 2 + readUint16(variableHeader, 0))).toString('utf8'),
    retain: (first & 1) === 1,
    first,
    variableHeader,
    headBytes,
    contentBytes: end - headBytes,
  };
}

/** The same packet with another content, which is small. */
export function withContent(first: number, variableHeader: Uint8Array, content: Uint8Array): Buffer {
  const length = variableHeader.byteLength + content.byteLength;
  return Buffer.concat([Buffer.from([first, ...variableInteger(length)]), variableHeader, content]);
}

/** Undefined: the header goes on behind these bytes. */
function findContent(bytes: Uint8Array, from: number, first: number, protocolVersion: 4 | 5): number | undefined {
  const qos = qosOf(first);
  if (bytes.byteLength < from + 2) return undefined;
  const properties = from + 2 + readUint16(bytes, from) + (qos === 0 ? 0 : 2);
  if (protocolVersion === 4) return properties <= bytes.byteLength ? properties : undefined;
  const length = readVariableInteger(bytes, properties);
  if (length === undefined || length.end + length.value > bytes.byteLength) return undefined;
  return length.end + length.value;
}

/** MQTT 5.0, section 3.2: a broker's first packet is CONNACK. What is no broker mostly begins otherwise. */
export function checkFirstPacket(bytes: Uint8Array): void {
  if (bytes[0] === CONNACK << 4) return;
  throw new BrokenPacket('it does not answer as a broker');
}

/**
 * Nothing of QoS 2 is sent or asked for, so none of its packets comes. Only a message has flags (MQTT 5.0, section 2.1.3): what
 * has others is no head of a packet, and its length would swallow what follows.
 */
function checkType(first: number): void {
  const type = first >> 4;
  const isOfQos2 = type === PUBLISH && qosOf(first) > 1;
  if (!knownTypes.has(type) || isOfQos2) throw new BrokenPacket(`a packet of type ${type} comes that no one asked for`);
  if (type !== PUBLISH && (first & 0x0f) !== 0) throw new BrokenPacket(`a packet of type ${type} has flags`);
}

/** MQTT 5.0, section 3.2: the broker answers CONNECT once. */
export function checkLaterPacket(bytes: Uint8Array): void {
  if (bytes[0] === CONNACK << 4) throw new BrokenPacket('it answers again that we may enter');
}

/** The MQTT client acknowledges a packet that has no identifier, and falls over it. */
function checkSmallPacket(first: number, body: Uint8Array): void {
  const isPublish = first >> 4 === PUBLISH;
  const identifierAt = isPublish ? 2 + readUint16(body, 0) : 0;
  const hasIdentifier = isPublish ? qosOf(first) > 0 : knownTypes.get(first >> 4) === true;
  if (body.byteLength < identifierAt + (hasIdentifier ? 2 : 0)) {
    throw new BrokenPacket(`a packet of type ${first >> 4} ends too early`);
  }
}

function qosOf(first: number): number {
  return (first >> 1) & 3;
}

interface VariableInteger {
  readonly value: number;
  readonly end: number;
}

/** MQTT 5.0, section 1.5.5. Undefined: it goes on behind these bytes. */
function readVariableInteger(bytes: Uint8Array, from: number): VariableInteger | undefined {
  let value = 0;
  for (let index = 0; index < 4; index += 1) {
    const byte = bytes[from + index];
    if (byte === undefined) return undefined;
    value += (byte & 0x7f) * 128 ** index;
    if (byte < 0x80) return { value, end: from + index + 1 };
  }
  throw new BrokenPacket('a length is malformed');
}

function variableInteger(value: number): readonly number[] {
  const low = value % 128;
  const high = Math.floor(value / 128);
  return high === 0 ? [low] : [low + 128, ...variableInteger(high)];
}

function readUint16(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0);
}
