import type { Chip, Region } from './chip.ts';
import { McuError } from './errors.ts';
import type { Image } from './images/image.ts';

/**
 * Bootloader protocols without I/O. A protocol is a set of conversations: generators that yield what to do on the line
 * next and are given what came back. What runs them is converse.ts; what repairs them is connection.ts.
 */
export type Conversation<T> = Generator<Turn, T, Reply>;

export type Turn = Exchange | Discard | ChangeBaud;

/** Say something and wait for the answer. */
export interface Exchange {
  readonly kind: 'exchange';
  /** May hold several commands: a burst costs one round trip. */
  readonly send: Uint8Array;
  readonly answer: Answer;
  /** How long the chip may work before its answer is complete, from its data sheet; the wire's time is added. */
  readonly workMs: number;
  /** Answers to earlier turns may still be under way: do not drop what has arrived meanwhile. */
  readonly pipelined: boolean;
}

/** How the end of an answer is known. */
export interface Answer {
  /** Most bytes it can have; sets the deadline and the bound of the buffer. */
  readonly atMost: number;
  /** Length of the whole answer at the start of what was received; 0 as long as more is needed. */
  readonly length: (received: Uint8Array) => number;
}

/** Drop whatever arrives until the line has been quiet for so long. */
export interface Discard {
  readonly kind: 'discard';
  readonly quietMs: number;
}

export interface ChangeBaud {
  readonly kind: 'baud';
  readonly baud: number;
}

/** What came back: the whole answer, or what there was of it at the deadline. Empty after other turns. */
export interface Reply {
  readonly bytes: Uint8Array;
  readonly whole: boolean;
}

/** One step of a dance with the modem lines. */
export interface ModemStep {
  readonly dtr: boolean;
  readonly rts: boolean;
  readonly thenMs: number;
}

export interface Protocol {
  readonly name: string;
  readonly parity: 'none' | 'even';
  /** How the modem lines bring the chip into its bootloader, by the target's `reset`. */
  readonly enter: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>>;
  /** How they start the application afterwards; empty where the bootloader does it. */
  readonly leave: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>>;
  /** From silence to a bootloader that answers and a chip that is known. */
  connect(): Conversation<Session>;
}

/** A bootloader that answers. What it cannot do is undefined. */
export type Session = MemorySession | UploadSession;

interface CommonSession {
  readonly chip: Chip;
  /** Finds the beginning of a command again after a damaged turn, without a reset. Throws where that fails. */
  readonly resume: () => Conversation<void>;
  readonly start: () => Conversation<void>;
}

/** The chip's memory can be written at any address. */
export interface MemorySession extends CommonSession {
  readonly kind: 'memory';
  /** The parts of the flash memory that are erased (and compared) as one, in order, that cover the region. */
  readonly unitsOf: (region: Region) => readonly Region[];
  /** A unit is written, and read, in blocks of at most so many bytes. */
  readonly blockBytes: number;
  /**
   * Units that stand one after the other between two multiples of so many bytes are one run: compared by one digest, and
   * written by one write where that erases. Undefined: every unit alone.
   */
  readonly runBytes: number | undefined;
  readonly read: ((address: number, length: number) => Conversation<Uint8Array>) | undefined;
  /** A digest that the chip computes itself, and the same over bytes here. */
  readonly digest: ChipDigest | undefined;
  /** Prepares a unit for being written; undefined: a write needs nothing before it. */
  readonly erase: ((unit: Region) => Conversation<void>) | undefined;
  /**
   * `anywhere`: a write erases and may be repeated. `in-order`: all blocks of a unit, one after the other, in one session;
   * one that was written is not repeated. `erased`: nor is one that is not blank; blank blocks need not be written.
   */
  readonly writes: 'anywhere' | 'in-order' | 'erased';
  readonly write: (address: number, bytes: Uint8Array) => Conversation<void>;
  /** Of the units of an image, the one without which nothing of it starts: parked first, written last. */
  readonly guardOf: (units: readonly Region[]) => Region | undefined;
  /**
   * What that unit holds while the rest is being changed, so that half a program never runs;
   * `erased` where an erased one does not run. Undefined where nothing of the kind is possible.
   */
  readonly parked: Uint8Array | 'erased' | undefined;
  /** Commands and answers carry checksums: what was damaged is noticed, and cannot have changed another address. */
  readonly checksFrames: boolean;
}

export interface ChipDigest {
  readonly ofChip: (address: number, length: number) => Conversation<string>;
  readonly ofBytes: (bytes: Uint8Array) => string;
}

/** The chip takes a whole image and places it itself. */
export interface UploadSession extends CommonSession {
  readonly kind: 'upload';
  /** Does the chip hold this image? Undefined: it cannot tell. */
  readonly holds: (image: Image) => Conversation<boolean | undefined>;
  /** Goes on where an interrupted upload ended, if the protocol can. */
  readonly upload: (image: Image, onProgress: (doneBytes: number) => void) => Conversation<void>;
}

/** The unit that holds an address. */
export function unitAt(address: number): MemorySession['guardOf'] {
  return (units) => units.find(({ start, end }) => start <= address && address < end);
}

/** Conclusions that may differ from the one before. */
const maxDoubts = 4;

/** An answer of a known length. */
export function exactly(bytes: number): Answer {
  return { atMost: bytes, length: (received) => (received.byteLength >= bytes ? bytes : 0) };
}

/** Where nothing sensible can come back. */
export const unanswered: Answer = { atMost: 0, length: () => 0 };

/** One command, one answer. Throws `board-silent` or `board-garbled` where the answer is not whole in time. */
export function* exchange(send: Uint8Array, answer: Answer, workMs = 0): Conversation<Uint8Array> {
  const reply = yield { kind: 'exchange', send, answer, workMs, pipelined: false };
  if (reply.whole) return reply.bytes;
  if (reply.bytes.byteLength === 0) throw new McuError('board-silent', 'the bootloader does not answer');
  throw new McuError('board-garbled', `the bootloader's answer is cut after ${reply.bytes.byteLength} bytes`);
}

/** A conversation whose end is known without a word on the line. */
export function* silently<T>(result: T): Conversation<T> {
  yield* [];
  return result;
}

/** Where answers carry no checksum: what is concluded of them has to be the same twice in a row. */
export function* twiceTheSame<T>(conclude: () => Conversation<T>, isSame: (a: T, b: T) => boolean): Conversation<T> {
  let first = yield* conclude();
  for (let tries = 0; tries < maxDoubts; tries += 1) {
    const second = yield* conclude();
    if (isSame(first, second)) return second;
    first = second;
  }
  throw new McuError('board-garbled', 'the bootloader says something else each time');
}

export function* discard(quietMs: number): Conversation<void> {
  yield { kind: 'discard', quietMs };
}

/** Units of one size, as most chips have them. */
export function equalUnits(unitBytes: number): (region: Region) => readonly Region[] {
  return ({ start, end }) => {
    const first = Math.floor(start / unitBytes);
    const count = Math.ceil(end / unitBytes) - first;
    return Array.from({ length: count }, (_, index) => ({
      start: (first + index) * unitBytes,
      end: (first + index + 1) * unitBytes,
    }));
  };
}
