import { parser } from 'mqtt-packet';
import type { Packet, Parser } from 'mqtt-packet';

import { BrokenPacket } from './errors.ts';
import { LARGE_BYTES, readPacketHead } from './packet-head.ts';
import type { PacketHead } from './packet-head.ts';
import { Payload } from './payload.ts';

/** A large message whose content was not received yet. */
export interface AnnouncedMessage {
  readonly topic: string;
  readonly retain: boolean;
  readonly contentBytes: number;
}

/** The content of a message. `skipped`: it was not wanted; only its first and last bytes were kept. */
export type Content =
  | { readonly kind: 'whole'; readonly payload: Payload }
  | { readonly kind: 'skipped'; readonly contentBytes: number; readonly sample: Buffer };

export interface Received {
  readonly packet: Packet;
  /** Only a message has content. */
  readonly content?: Content;
}

const BLOCK_BYTES = 1024 * 1024;
const SAMPLE_BYTES = 4096;
/** The beginning of a large message: enough for the longest topic and the properties. */
const MAX_PREFIX_BYTES = 128 * 1024;
const nothing: Uint8Array = new Uint8Array();

/**
 * Cuts the bytes of a broker into packets. The head of each packet is checked before more of it is kept. mqtt-packet
 * reads a small packet when it is complete, and of a large message the beginning; then `admits` decides whether the
 * rest is kept. Throws BrokenPacket.
 */
export class PacketReader {
  readonly #admits: (message: AnnouncedMessage) => boolean;
  readonly #parser: Parser;
  #parsed: Packet | undefined;
  /** Bytes that are too few for a head. */
  #held = nothing;
  /** The packet that is being received. */
  #part: Part | undefined;
  #isAnswered = false;

  /** `admits` decides whether the content of a large message is wanted. */
  constructor(protocolVersion: 4 | 5, admits: (message: AnnouncedMessage) => boolean) {
    this.#admits = admits;
    this.#parser = parser({ protocolVersion });
    this.#parser.on('packet', (packet) => (this.#parsed = packet));
    this.#parser.on('error', (error) => {
      throw error;
    });
  }

  /** True within a large message. */
  get isBusy(): boolean {
    return this.#part?.isOfLarge === true;
  }

  *push(chunk: Uint8Array): Generator<Received, void, undefined> {
    let rest = this.#held.byteLength === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = nothing;
    while (rest.byteLength > 0) {
      this.#part ??= this.#begin(rest);
      if (this.#part === undefined) {
        this.#held = Buffer.from(rest);
        return;
      }
      const part = this.#part;
      const own = rest.subarray(0, part.leftBytes);
      part.leftBytes -= own.byteLength;
      part.taker.take(own);
      if (part.leftBytes > 0) return;
      this.#part = undefined;
      rest = rest.subarray(own.byteLength);
      const received = part.finish();
      if (received !== undefined) yield received;
    }
  }

  /** Undefined: the head is not complete yet. */
  #begin(bytes: Uint8Array): Part | undefined {
    const head = readPacketHead(bytes, !this.#isAnswered);
    if (head === undefined) return undefined;
    this.#isAnswered = true;
    const { headBytes, bodyBytes } = head;
    const isOfLarge = bodyBytes >= LARGE_BYTES;
    const leftBytes = headBytes + (isOfLarge ? Math.min(bodyBytes, MAX_PREFIX_BYTES) : bodyBytes);
    const taker = new Joiner(leftBytes);
    return { leftBytes, taker, isOfLarge, finish: () => this.#read(head, taker.bytes) };
  }

  /** Reads a small packet, or the beginning of a large message as if the message ended there. */
  #read({ first, headBytes, bodyBytes }: PacketHead, bytes: Uint8Array): Received | undefined {
    const isLarge = bodyBytes >= LARGE_BYTES;
    const packet = this.#parse(isLarge ? packetOf(first, bytes.subarray(headBytes)) : bytes);
    if (packet.cmd !== 'publish' || typeof packet.payload === 'string') return { packet };
    const start = packet.payload;
    if (!isLarge) return { packet, content: { kind: 'whole', payload: new Payload([start]) } };
    packet.payload = '';
    const leftBytes = headBytes + bodyBytes - bytes.byteLength;
    const contentBytes = start.byteLength + leftBytes;
    const isWanted = this.#admits({ topic: packet.topic, retain: packet.retain, contentBytes });
    const taker = isWanted ? new Keeper(contentBytes) : new Sampler(contentBytes);
    const finish = () => ({ packet, content: taker.content });
    taker.take(start);
    if (leftBytes === 0) return finish();
    this.#part = { leftBytes, taker, isOfLarge: true, finish };
    return undefined;
  }

  #parse(bytes: Uint8Array): Packet {
    this.#parsed = undefined;
    try {
      this.#parser.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    } catch (error) {
      throw new BrokenPacket(error instanceof Error ? error.message : 'it cannot be read', { cause: error });
    }
    const packet = this.#parsed as Packet | undefined;
    if (packet === undefined) throw new BrokenPacket('a packet ends too early');
    // mqtt-packet sets -1 where the identifier is missing
    if (packet.messageId === -1) throw new BrokenPacket(`a ${packet.cmd} has no identifier`);
    return packet;
  }
}

/** Makes a packet of less than 2 MiB: its length is written in three bytes. */
function packetOf(first: number, body: Uint8Array): Buffer {
  const length = body.byteLength;
  const head = [first, (length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14];
  return Buffer.concat([Buffer.from(head), body]);
}

interface Taker {
  take(bytes: Uint8Array): void;
}

/** The bytes that are still expected, and the taker that receives them. */
interface Part {
  leftBytes: number;
  readonly taker: Taker;
  readonly isOfLarge: boolean;
  readonly finish: () => Received | undefined;
}

/** Keeps the bytes in one piece, without a copy where they arrived in one piece. */
class Joiner implements Taker {
  bytes = nothing;
  readonly #byteLength: number;
  #end = 0;

  constructor(byteLength: number) {
    this.#byteLength = byteLength;
  }

  take(own: Uint8Array): void {
    if (own.byteLength === this.#byteLength) {
      this.bytes = own;
      return;
    }
    if (this.#end === 0) this.bytes = Buffer.allocUnsafeSlow(this.#byteLength);
    this.bytes.set(own, this.#end);
    this.#end += own.byteLength;
  }
}

/** Keeps all bytes, in blocks that are allocated as they are needed. */
class Keeper implements Taker {
  readonly #blocks: Buffer[] = [];
  #leftBytes: number;
  /** The place behind the last byte in the last block. */
  #end = 0;

  constructor(contentBytes: number) {
    this.#leftBytes = contentBytes;
  }

  get content(): Content {
    return { kind: 'whole', payload: new Payload(this.#blocks) };
  }

  take(bytes: Uint8Array): void {
    for (let rest = bytes; rest.byteLength > 0;) {
      const block = this.#roomyBlock();
      const part = rest.subarray(0, block.byteLength - this.#end);
      block.set(part, this.#end);
      this.#end += part.byteLength;
      this.#leftBytes -= part.byteLength;
      rest = rest.subarray(part.byteLength);
    }
  }

  #roomyBlock(): Buffer {
    const last = this.#blocks.at(-1);
    if (last !== undefined && this.#end < last.byteLength) return last;
    const block = Buffer.allocUnsafeSlow(Math.min(BLOCK_BYTES, this.#leftBytes));
    this.#blocks.push(block);
    this.#end = 0;
    return block;
  }
}

/** Keeps the first and the last bytes, which may contain an id. */
class Sampler implements Taker {
  readonly #contentBytes: number;
  #head = nothing;
  #tail = nothing;

  constructor(contentBytes: number) {
    this.#contentBytes = contentBytes;
  }

  get content(): Content {
    const sample = Buffer.concat([this.#head, this.#tail]);
    return { kind: 'skipped', contentBytes: this.#contentBytes, sample };
  }

  take(bytes: Uint8Array): void {
    const headBytes = Math.min(SAMPLE_BYTES - this.#head.byteLength, bytes.byteLength);
    if (headBytes > 0) this.#head = Buffer.concat([this.#head, bytes.subarray(0, headBytes)]);
    this.#tail = Buffer.concat([this.#tail, bytes.subarray(headBytes).subarray(-SAMPLE_BYTES)]).subarray(-SAMPLE_BYTES);
  }
}
