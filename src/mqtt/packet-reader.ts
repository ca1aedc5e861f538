import { parser } from 'mqtt-packet';
import type { Packet, Parser } from 'mqtt-packet';

import { BrokenPacket } from './errors.ts';
import { LARGE_BYTES, readPacketHead } from './packet-head.ts';
import type { PacketHead } from './packet-head.ts';
import { Payload } from './payload.ts';

/** A large message, before its content was received. */
export interface AnnouncedMessage {
  readonly topic: string;
  readonly retain: boolean;
  readonly contentBytes: number;
}

/** What a message holds. `skipped`: it was not wanted; only its first and last bytes were kept. */
export type Content =
  | { readonly kind: 'whole'; readonly payload: Payload }
  | { readonly kind: 'skipped'; readonly contentBytes: number; readonly sample: Buffer };

export interface Received {
  readonly packet: Packet;
  /** Of a message. */
  readonly content?: Content;
}

const BLOCK_BYTES = 1024 * 1024;
const SAMPLE_BYTES = 4096;
/** Of a large message, in which its topic, of the longest kind, and its properties end. */
const MAX_PREFIX_BYTES = 128 * 1024;
const nothing: Uint8Array = new Uint8Array();

/**
 * Cuts what a broker sends into packets. Each is judged by its head before any more of it is kept; a small one is read by mqtt-packet
 * when all of it is there, of a large message the beginning, and whether the rest is kept is asked before. Throws BrokenPacket.
 */
export class PacketReader {
  readonly #admits: (message: AnnouncedMessage) => boolean;
  readonly #parser: Parser;
  #parsed: Packet | undefined;
  /** Less than a head. */
  #held = nothing;
  /** Of the packet that comes. */
  #part: Part | undefined;
  #isAnswered = false;

  /** `admits`: is the content of this message wanted? */
  constructor(protocolVersion: 4 | 5, admits: (message: AnnouncedMessage) => boolean) {
    this.#admits = admits;
    this.#parser = parser({ protocolVersion });
    this.#parser.on('packet', (packet) => (this.#parsed = packet));
    this.#parser.on('error', (error) => {
      throw error;
    });
  }

  /** Within a large message. */
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

  /** Undefined: not even the head is there. */
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

  /** A small packet, or the beginning of a large message, which is read as if it ended there. */
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
    // mqtt-packet says so where there is none
    if (packet.messageId === -1) throw new BrokenPacket(`a ${packet.cmd} has no identifier`);
    return packet;
  }
}

/** Of less than 2 MiB: its length is written in three bytes. */
function packetOf(first: number, body: Uint8Array): Buffer {
  const length = body.byteLength;
  const head = [first, (length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14];
  return Buffer.concat([Buffer.from(head), body]);
}

interface Taker {
  take(bytes: Uint8Array): void;
}

/** Bytes that are to come, and what becomes of them. */
interface Part {
  leftBytes: number;
  readonly taker: Taker;
  readonly isOfLarge: boolean;
  readonly finish: () => Received | undefined;
}

/** Keeps them in one piece: as they came, where they came so. */
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

/** Keeps all of it, in blocks that are made as they are needed. */
class Keeper implements Taker {
  readonly #blocks: Buffer[] = [];
  #leftBytes: number;
  /** Behind the last byte of the last block. */
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

/** Keeps the first and the last bytes, in which an id may be recognised. */
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
