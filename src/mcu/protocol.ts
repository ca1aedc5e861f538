import { isDeepStrictEqual } from 'node:util';

import type { Chip, Region } from './chip.ts';
import { isBoardError, McuError } from './errors.ts';
import type { Image } from './images/image.ts';

/**
 * A conversation of a bootloader protocol, without I/O: a generator that yields the next step on the line, and receives
 * the reply. converse.ts runs conversations, and connection.ts repeats those that fail.
 */
export type Conversation<T> = Generator<Turn, T, Reply>;

export type Turn = Exchange | Discard | ChangeBaud;

/** Sends something and waits for the answer. */
export interface Exchange {
  readonly kind: 'exchange';
  /** May hold several commands: a burst costs only one round trip. */
  readonly send: Uint8Array;
  readonly answer: Answer;
  /**
   * The time that the chip may work before its answer is complete, from its data sheet; the time on the wire is added.
   */
  readonly workMs: number;
  /** True if answers to earlier turns may still arrive, so that bytes received in the meantime must not be dropped. */
  readonly pipelined: boolean;
}

/** How the end of an answer is recognized. */
export interface Answer {
  /** The largest possible size; it determines the deadline and the bound of the buffer. */
  readonly atMost: number;
  /** Returns the length of the whole answer, which begins with the received bytes; 0 if more is needed. */
  readonly length: (received: Uint8Array) => number;
}

/** Drops whatever arrives, until the line has been quiet for this time. */
export interface Discard {
  readonly kind: 'discard';
  readonly quietMs: number;
}

export interface ChangeBaud {
  readonly kind: 'baud';
  readonly baud: number;
}

/**
 * The reply: the whole answer, or the part of it that arrived before the deadline. Empty after turns of other kinds.
 */
export interface Reply {
  readonly bytes: Uint8Array;
  readonly whole: boolean;
}

/** One step in a sequence of changes of the modem lines. */
export interface ModemStep {
  readonly dtr: boolean;
  readonly rts: boolean;
  readonly thenMs: number;
}

export interface Protocol {
  readonly name: string;
  readonly parity: 'none' | 'even';
  /** How the modem lines bring the chip into its bootloader, by the `reset` of the target. */
  readonly enter: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>>;
  /** How the modem lines start the application afterwards; empty: the bootloader starts it. */
  readonly leave: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>>;
  /**
   * Throws if the bootloader still answers after the modem lines were set to start the application. Undefined if asking
   * would disturb an application.
   */
  readonly requireLeft?: (() => Conversation<void>) | undefined;
  /** Leads from silence to a bootloader that answers and a chip that is known. */
  connect(): Conversation<Session>;
}

/** A bootloader that answers. Members for missing abilities are undefined. */
export type Session = MemorySession | UploadSession;

interface CommonSession {
  readonly chip: Chip;
  /**
   * Returns the place that the chip starts, for people: a slot and its version. Undefined if it starts from one place
   * only.
   */
  readonly boots?: (() => Conversation<string | undefined>) | undefined;
  /** Gets back in step after a damaged turn, so that a command can begin, without a reset. Throws if that fails. */
  readonly resume: () => Conversation<void>;
  readonly start: () => Conversation<void>;
}

/** The data to write so that a chip with several places for a program starts the one in an image. */
export interface BootPlan {
  /** The image, with the data that selects it. */
  readonly image: Image;
  readonly known: 'otadata' | 'read-back' | 'sent';
  /** The address of the selecting data, which is written last. */
  readonly guard: number | undefined;
  /** Writing this makes the chip start its present program again. Undefined if the image replaces that. */
  readonly before: Image | undefined;
}

/** A session with a chip whose memory can be written at any address. */
export interface MemorySession extends CommonSession {
  readonly kind: 'memory';
  /** The parts of the flash memory, each erased and compared as a whole, that cover the region, in order. */
  readonly unitsOf: (region: Region) => readonly Region[];
  /** A unit is written and read in blocks of at most this size. */
  readonly blockBytes: number;
  /**
   * Consecutive units between two multiples of this size form a run, which is compared by one digest and, if writing
   * erases, written by one write. Undefined if every unit is alone.
   */
  readonly runBytes?: number | undefined;
  readonly read?: ((address: number, length: number) => Conversation<Uint8Array>) | undefined;
  /** A digest that the chip computes itself, and the same function for bytes here. */
  readonly digest?: ChipDigest | undefined;
  /** Prepares a unit for writing. Undefined if writing needs no preparation. */
  readonly erase?: ((unit: Region) => Conversation<void>) | undefined;
  /**
   * `anywhere`: a write erases, and may be repeated. `in-order`: all blocks of a unit are written one after the other
   * in one session, and none of them is repeated. `erased`: a block that is not blank cannot be written again, and
   * blank blocks need not be written.
   */
  readonly writes: 'anywhere' | 'in-order' | 'erased';
  readonly write: (address: number, bytes: Uint8Array) => Conversation<void>;
  /**
   * Throws if the chip would not start the image. `toStay`: the image is a backup, which may be of the selecting data
   * only. Undefined if the chip has one place for a program.
   */
  readonly planBoot?: ((image: Image, toStay: boolean) => Conversation<BootPlan>) | undefined;
  /** The unit of an image without which the image does not start: it is parked first, and written last. */
  readonly guardOf: (units: readonly Region[], image: Image) => Region | undefined;
  /**
   * The content of that unit while the rest changes, so that half a program never runs; `erased`: an erased unit does
   * not run. Undefined if the board cannot be parked.
   */
  readonly parked: Uint8Array | 'erased' | undefined;
  /** True if commands and answers carry checksums, so that damage is noticed and cannot change another address. */
  readonly checksFrames: boolean;
}

export interface ChipDigest {
  readonly ofChip: (address: number, length: number) => Conversation<string>;
  readonly ofBytes: (bytes: Uint8Array) => string;
}

/**
 * The state of an image on a chip that has several slots:
 *
 * - `stays`: the chip starts it, now and later
 * - `first`: the same, unless another image is requested for the next start, which the chip does not report
 * - `on-trial`: it runs; the bootloader returns to the previous one at the next start, unless the application confirms it
 * - `selected`: it starts next
 * - `held`: it is in a slot that does not start
 * - `absent`: it is in no slot
 * - `unsettled`: another image is on trial or selected, and only a start decides
 * - `unknown`: the chip cannot tell
 */
export type Standing = 'stays' | 'first' | 'on-trial' | 'selected' | 'held' | 'absent' | 'unsettled' | 'unknown';

/** A session with a chip that receives a whole image and places it itself. */
export interface UploadSession extends CommonSession {
  readonly kind: 'upload';
  readonly standing: (image: Image) => Conversation<Standing>;
  /**
   * Returns the running image: the expected one, or one with its name but without its file. Flashing
   * that selects it again, if the chip still holds it. Returns undefined if the chip cannot tell.
   */
  readonly running?: ((expected?: Image) => Conversation<Image | undefined>) | undefined;
  /** Sends the image. Continues an interrupted upload if the protocol can. */
  readonly upload: (image: Image, onProgress: (doneBytes: number) => void) => Conversation<void>;
  /**
   * Makes an image that the chip holds start next: for one trial, or to stay. After
   * `start`, the application responds again, and reports the running image. Undefined if the chip starts the received
   * image, and sends nothing afterwards.
   */
  readonly select?: ((image: Image, toStay: boolean) => Conversation<void>) | undefined;
}

/** A receiver that does not identify its chip. */
export function unknownChip(name: string, id: string): Chip {
  const everything = { start: 0, end: 2 ** 32 };
  return { name, id, elfMachine: undefined, uf2Families: [], flash: everything, application: everything };
}

/** The unit that contains an address. */
export function unitAt(address: number): (units: readonly Region[]) => Region | undefined {
  return (units) => units.find(({ start, end }) => start <= address && address < end);
}

/** The number of times that a conclusion may differ from the previous one. */
const maxDoubts = 4;

/** An answer of a known length. */
export function exactly(bytes: number): Answer {
  return { atMost: bytes, length: (received) => (received.byteLength >= bytes ? bytes : 0) };
}

/** The answer to a turn to which nothing sensible can come back. */
export const noReply: Answer = { atMost: 0, length: () => 0 };

/** Sends something, and returns the part of its answer that arrives in time. */
export function* attempt(send: Uint8Array, answer: Answer, workMs = 0): Conversation<Reply> {
  return yield { kind: 'exchange', send, answer, workMs, pipelined: false };
}

/** Sends something that is not answered. */
export function* say(send: Uint8Array): Conversation<void> {
  yield* attempt(send, noReply);
}

/** Waits for the answer to something that was sent before. */
export function* listen(answer: Answer, workMs = 0): Conversation<Reply> {
  return yield { kind: 'exchange', send: new Uint8Array(), answer, workMs, pipelined: true };
}

/** Repeats a conversation that fails, each time when the line has become quiet. */
export function* persist<T>(conversation: () => Conversation<T>, maxTries: number): Conversation<T> {
  for (let tries = 1; ; tries += 1) {
    yield* discard();
    try {
      return yield* conversation();
    } catch (error) {
      if (!isBoardError(error) || tries >= maxTries) throw error;
    }
  }
}

/** Sends one command and returns its answer. Throws `board-timeout` or `board-bad-response` if it is not complete in time. */
export function* exchange(send: Uint8Array, answer: Answer, workMs = 0): Conversation<Uint8Array> {
  return wholeOf(yield* attempt(send, answer, workMs));
}

/** Returns the bytes of an answer. Throws `board-timeout` or `board-bad-response` if it is not complete. */
export function wholeOf(reply: Reply): Uint8Array {
  if (reply.whole) return reply.bytes;
  if (reply.bytes.byteLength === 0) throw new McuError('board-timeout', 'the bootloader is not responding');
  throw new McuError(
    'board-bad-response',
    `the bootloader's answer is truncated after ${reply.bytes.byteLength} bytes`,
  );
}

/** A conversation whose result is known without using the line. */
export function* withoutIo<T>(result: T): Conversation<T> {
  yield* [];
  return result;
}

/** Repeats a conversation until it yields the same result twice in a row, for answers without a checksum. */
export function* untilSameTwice<T>(conclude: () => Conversation<T>): Conversation<T> {
  let first = yield* conclude();
  for (let tries = 0; tries < maxDoubts; tries += 1) {
    const second = yield* conclude();
    if (isDeepStrictEqual(first, second)) return second;
    first = second;
  }
  throw new McuError('board-bad-response', 'the bootloader answers differently each time');
}

export function* discard(quietMs = 20): Conversation<void> {
  yield { kind: 'discard', quietMs };
}

/** Units of equal size, as most chips have them. */
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
