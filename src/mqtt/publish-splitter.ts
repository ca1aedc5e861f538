import { checkFirstPacket, checkLaterPacket, readPacketHead, withContent } from './packet-head.ts';
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

/** For the MQTT client. After a ticket nothing should follow before its content was taken. */
export type Piece =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'ticket'; readonly bytes: Uint8Array; readonly ticket: string; readonly content: Content };

export interface SplitterSettings {
  readonly protocolVersion: 4 | 5;
  /** Is the content of this message wanted? */
  readonly admits: (message: AnnouncedMessage) => boolean;
  /** A few bytes that nobody can guess. */
  readonly newTicket: () => Buffer;
}

const BLOCK_BYTES = 1024 * 1024;
const SAMPLE_BYTES = 4096;
const nothing = new Uint8Array();

/**
 * Stands between the socket and the MQTT client, which would hold the content of a message twice, and only learn its
 * size when all of it is there. Small packets pass, each as a whole; out of a large PUBLISH the content is taken and a ticket put in
 * its place. Throws BrokenPacket.
 */
export class PublishSplitter {
  readonly #settings: SplitterSettings;
  /** The beginning of a packet, while more of it is to come. */
  #held = nothing;
  #message: MessageOnItsWay | undefined;
  #isAnswered = false;

  constructor(settings: SplitterSettings) {
    this.#settings = settings;
  }

  /** Within a large message. */
  get isBusy(): boolean {
    return this.#message !== undefined;
  }

  *push(chunk: Uint8Array): Generator<Piece, void, undefined> {
    let rest: Uint8Array = this.#held.byteLength === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = nothing;
    while (rest.byteLength > 0) {
      if (this.#message !== undefined) {
        rest = rest.subarray(this.#message.take(rest));
        if (this.#message.isComplete) yield this.#exchange(this.#message);
        continue;
      }
      if (this.#isAnswered) checkLaterPacket(rest);
      else checkFirstPacket(rest);
      const head = readPacketHead(rest, this.#settings.protocolVersion);
      if (head === undefined) {
        this.#held = Buffer.from(rest);
        return;
      }
      this.#isAnswered = true;
      if (head.kind === 'small') {
        yield { kind: 'bytes', bytes: rest.subarray(0, head.packetBytes) };
        rest = rest.subarray(head.packetBytes);
      } else {
        this.#begin(head);
        rest = rest.subarray(head.headBytes);
      }
    }
  }

  #begin(head: PacketHead & { readonly kind: 'large-publish' }): void {
    const { contentBytes } = head;
    const taker = this.#settings.admits(head) ? new Keeper(contentBytes) : new Sampler(contentBytes);
    this.#message = new MessageOnItsWay(contentBytes, taker, (ticket) =>
      withContent(head.first, head.variableHeader, ticket),
    );
  }

  #exchange(message: MessageOnItsWay): Piece {
    this.#message = undefined;
    const ticket = this.#settings.newTicket();
    const bytes = message.packetWith(ticket);
    return { kind: 'ticket', bytes, ticket: ticket.toString('hex'), content: message.content };
  }
}

interface ContentTaker {
  take(bytes: Uint8Array): void;
  readonly content: Content;
}

class MessageOnItsWay {
  readonly packetWith: (content: Uint8Array) => Buffer;
  readonly #taker: ContentTaker;
  #leftBytes: number;

  constructor(contentBytes: number, taker: ContentTaker, packetWith: (content: Uint8Array) => Buffer) {
    this.#leftBytes = contentBytes;
    this.#taker = taker;
    this.packetWith = packetWith;
  }

  get isComplete(): boolean {
    return this.#leftBytes === 0;
  }

  get content(): Content {
    return this.#taker.content;
  }

  /** Returns how many of the bytes belong to it. */
  take(bytes: Uint8Array): number {
    const own = bytes.subarray(0, this.#leftBytes);
    this.#leftBytes -= own.byteLength;
    this.#taker.take(own);
    return own.byteLength;
  }
}

/** Keeps all of it, in blocks that are made as they are needed. */
class Keeper implements ContentTaker {
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
class Sampler implements ContentTaker {
  readonly #contentBytes: number;
  #head: Uint8Array = nothing;
  #tail: Uint8Array = nothing;

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
