import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

import { releaseMemory } from '../system/files/release-memory.ts';
import { MalformedPacketError } from './errors.ts';

/** The start of an MQTT control packet: MQTT 5.0, section 2.1; 3.1.1, section 2.2. */
interface PacketHead {
  /** The first byte: type and flags. */
  readonly first: number;
  /** The number of bytes of type and length. */
  readonly headBytes: number;
  readonly bodyBytes: number;
}

/** A large message whose content was not kept. */
export interface SkippedMessage {
  readonly bytes: number;
  readonly isRetained: boolean;
  /** The first and the last bytes, which contain topic, properties, and maybe an id. */
  readonly sample: Buffer;
}

export interface GuardDeps {
  /** Decides whether a large message that starts now is kept; `bytes` counts topic, properties and content. */
  readonly admits: (bytes: number) => boolean;
  /** Called at the end of a message that was not kept. */
  readonly onSkipped?: (message: SkippedMessage) => void;
  /** Called when bytes of a large message arrived. */
  readonly onProgress?: () => void;
  /** Called when this many bytes arrived; reading resumes when the promise has resolved. It never rejects. */
  readonly rest?: ((bytes: number) => Promise<void> | undefined) | undefined;
}

/** A packet of at least this size is large. Only a message may be. */
export const LARGE_BYTES = 64 * 1024;
/** Enough for the longest topic and a packet identifier. */
const SAMPLE_START_BYTES = LARGE_BYTES + 4096;
const SAMPLE_END_BYTES = 4096;
/** Unsent bytes above which nothing is read: MQTT.js would acknowledge messages to a broker that never reads. */
const MAX_UNSENT_BYTES = 2048;
const CONNACK = 0x20;
const PUBACK = 0x40;
/** The shortest bodies of the packets that a broker sends, except messages: MQTT 3.1.1, section 3. */
const shortestBodies: ReadonlyMap<number, number> = new Map([
  [CONNACK, 2],
  [PUBACK, 2],
  [0x90, 3], // SUBACK
  [0xd0, 0], // PINGRESP
  [0xe0, 0], // DISCONNECT
]);

/**
 * Sits between a broker and MQTT.js, which trusts a packet's length, keeps the packet until it is complete, and fails
 * if its identifier is missing. Passes on complete packets, one per chunk, and only those that a client of QoS 0 and 1
 * can receive. Skips large messages that are not wanted. Each received byte is copied at most once.
 */
export class PacketGuard extends Duplex {
  /** The number of bytes that arrived so far. */
  receivedBytes = 0;
  readonly #socket: Socket;
  readonly #deps: GuardDeps;
  /** Bytes that are too few for a head. */
  #held: Buffer = Buffer.alloc(0);
  /** The packet that is being received. */
  #part: Part | undefined;
  #isAnswered = false;
  #isResting = false;
  #isFull = false;

  constructor(socket: Socket, deps: GuardDeps) {
    super({
      readableObjectMode: true,
      readableHighWaterMark: 1,
      writableHighWaterMark: MAX_UNSENT_BYTES,
      allowHalfOpen: false,
    });
    this.#socket = socket;
    this.#deps = deps;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.once('error', (error) => this.destroy(error));
    socket.once('end', () => this.push(null));
    socket.once('close', () => this.push(null));
    this.on('drain', () => this.#resume());
  }

  /** True while nothing is read from the broker. */
  get isDeaf(): boolean {
    return this.#isResting || this.#isFull || this.writableNeedDrain;
  }

  override _read(): void {
    this.#isFull = false;
    this.#resume();
  }

  /** Writes the pieces of a packet together: each write of its own would be a TCP segment or a TLS record. */
  override _writev(pieces: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.write(Buffer.concat(pieces.map(({ chunk }) => chunk)), done);
  }

  override _final(done: () => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #receive(chunk: Buffer): void {
    this.receivedBytes += chunk.byteLength;
    const part = this.#part;
    try {
      this.#split(this.#held.byteLength === 0 ? chunk : Buffer.concat([this.#held, chunk]));
    } catch (error) {
      if (!(error instanceof MalformedPacketError)) throw error;
      this.destroy(error);
      return;
    }
    if (part?.isLarge === true || this.#part?.isLarge === true) this.#deps.onProgress?.();
    void this.#rest(chunk.byteLength);
    if (this.isDeaf) this.#socket.pause();
    if (part !== undefined && part === this.#part) releaseMemory(chunk); // all of it was copied
  }

  #split(bytes: Buffer): void {
    let rest = bytes;
    while (rest.byteLength > 0 && !this.destroyed) {
      this.#part ??= this.#start(rest);
      if (this.#part === undefined) break;
      const own = rest.subarray(0, this.#part.leftBytes);
      this.#part.take(own);
      rest = rest.subarray(own.byteLength);
      if (this.#part.leftBytes > 0) break;
      const { head, isSkipped, bytes: packet } = this.#part;
      this.#part = undefined;
      if (isSkipped) this.#skip(head, packet);
      else this.#pass(head, packet);
    }
    this.#held = Buffer.from(rest);
  }

  /** Returns undefined if the header is incomplete. */
  #start(bytes: Buffer): Part | undefined {
    const head = readHead(bytes, !this.#isAnswered);
    if (head === undefined) return undefined;
    this.#isAnswered = true;
    return new Part(head, head.bodyBytes >= LARGE_BYTES && !this.#deps.admits(head.bodyBytes));
  }

  #pass(head: PacketHead, packet: Buffer): void {
    if (isMessage(head.first)) identifierStart(head, packet);
    this.#isFull = !this.push(packet);
  }

  #skip(head: PacketHead, sample: Buffer): void {
    const start = identifierStart(head, sample);
    if (hasIdentifier(head.first)) this.write(Buffer.from([PUBACK, 2, ...sample.subarray(start, start + 2)]));
    const isRetained = (head.first & 1) === 1;
    this.#deps.onSkipped?.({ bytes: head.bodyBytes, isRetained, sample: sample.subarray(head.headBytes) });
  }

  async #rest(bytes: number): Promise<void> {
    const rested = this.#deps.rest?.(bytes);
    if (rested === undefined) return;
    this.#isResting = true;
    await rested;
    this.#isResting = false;
    this.#resume();
  }

  #resume(): void {
    if (!this.isDeaf) this.#socket.resume();
  }
}

/** One packet while it arrives; of a skipped message only the start and the end are kept. */
class Part {
  readonly head: PacketHead;
  readonly isSkipped: boolean;
  leftBytes: number;
  readonly #keptBytes: number;
  #start: Buffer = Buffer.alloc(0);
  #startBytes = 0;
  #end: Buffer = Buffer.alloc(0);

  constructor(head: PacketHead, isSkipped: boolean) {
    this.head = head;
    this.isSkipped = isSkipped;
    this.leftBytes = head.headBytes + head.bodyBytes;
    this.#keptBytes = isSkipped ? Math.min(this.leftBytes, SAMPLE_START_BYTES) : this.leftBytes;
  }

  get isLarge(): boolean {
    return this.head.bodyBytes >= LARGE_BYTES;
  }

  get bytes(): Buffer {
    return this.isSkipped ? Buffer.concat([this.#start, this.#end]) : this.#start;
  }

  take(own: Buffer): void {
    this.leftBytes -= own.byteLength;
    const kept = own.subarray(0, this.#keptBytes - this.#startBytes);
    if (kept.byteLength === this.#keptBytes) this.#start = kept;
    else {
      if (this.#startBytes === 0) this.#start = Buffer.allocUnsafeSlow(this.#keptBytes);
      this.#start.set(kept, this.#startBytes);
    }
    this.#startBytes += kept.byteLength;
    const end = own.subarray(kept.byteLength).subarray(-SAMPLE_END_BYTES);
    this.#end = Buffer.concat([this.#end, end]).subarray(-SAMPLE_END_BYTES);
  }
}

/**
 * Returns undefined if more bytes are needed. The first byte is checked first: a wrong length would swallow the
 * following data.
 */
function readHead(bytes: Buffer, isFirst: boolean): PacketHead | undefined {
  const first = bytes[0];
  if (first === undefined) return undefined;
  const shortest = shortestBody(first, isFirst);
  for (let bodyBytes = 0, at = 1; at <= 4; at += 1) {
    const byte = bytes[at];
    if (byte === undefined) return undefined;
    bodyBytes += (byte & 0x7f) * 128 ** (at - 1);
    if (byte >= 0x80) continue;
    if (bodyBytes >= shortest && (bodyBytes < LARGE_BYTES || isMessage(first))) {
      return { first, headBytes: at + 1, bodyBytes };
    }
    throw new MalformedPacketError(`a packet of type ${first >> 4} has ${bodyBytes} bytes`);
  }
  throw new MalformedPacketError('a length is malformed');
}

/** A broker sends CONNACK first, and only once: MQTT 5.0, section 3.2. */
function shortestBody(first: number, isFirst: boolean): number {
  if (isFirst && first !== CONNACK) throw new MalformedPacketError('it does not respond as a broker');
  const shortest = isMessage(first) ? 2 : shortestBodies.get(first);
  if (shortest !== undefined && (isFirst || first !== CONNACK)) return shortest;
  throw new MalformedPacketError(`a packet comes that no one asked for (0x${first.toString(16)})`);
}

/** True for a message of QoS 0 or 1; we never ask for QoS 2. */
function isMessage(first: number): boolean {
  return first >> 4 === 3 && (first & 0b100) === 0;
}

function hasIdentifier(first: number): boolean {
  return (first & 0b10) !== 0;
}

/**
 * Returns the offset of a message's identifier, after its topic. Throws MalformedPacketError if the message has
 * neither.
 */
function identifierStart({ first, headBytes, bodyBytes }: PacketHead, packet: Buffer): number {
  const topicEnd = headBytes + 2 + packet.readUInt16BE(headBytes);
  const end = hasIdentifier(first) ? topicEnd + 2 : topicEnd;
  if (end > headBytes + bodyBytes) throw new MalformedPacketError('a message has no topic, or no identifier');
  return topicEnd;
}
