import { crc16 } from '../crc16.ts';
import { McuError } from '../errors.ts';
import { onlyPiece } from '../images/image.ts';
import type { Image } from '../images/image.ts';
import { attempt, discard, listen, noReply, say, unknownChip, withoutIo } from '../protocol.ts';
import type { Answer, Conversation, Protocol, UploadSession } from '../protocol.ts';
import { startedByReset } from './reset-pulse.ts';

export interface XmodemSettings {
  readonly variant?: 'xmodem' | 'xmodem-1k' | 'ymodem' | undefined;
  /** The keys that a bootloader with a menu expects before it receives, and to start the application. */
  readonly uploadKeys?: string | undefined;
  readonly startKeys?: string | undefined;
  /** The file name for a YMODEM receiver. */
  readonly fileName?: string | undefined;
}

/** Source: Chuck Forsberg, "XMODEM/YMODEM Protocol Reference" (1988), chapters 3, 7 and 8. */
const soh = 0x01;
const stx = 0x02;
const eot = 0x04;
const ack = 0x06;
const nak = 0x15;
const can = 0x18;
const wantsCrc = 0x43;
const filler = 0x1a;

const smallBytes = 128;
const largeBytes = 1024;
/** 7.3.2 and 8: within a block a receiver times out after a second, and asks again; some only every ten seconds. */
const receiverWorkMs = 12_000;
/** Receivers call for a transfer every few seconds; rb of lrzsz every eleven, rx every fourteen. */
const callMs = 20_000;
/** The line is observed in windows of this time, and of the slack of LineTiming: about 300 ms. */
const windowMs = 100;
/** Without a call for this number of windows (18 s) there is no receiver; it has this number (33 s) to be recognized. */
const [patienceWindows, mostWindows] = [60, 110];
/** A board that sends more than this is not in its bootloader. */
const mostTextBytes = 64 * 1024;
/** Calls that come faster than a window show themselves in this number of windows (3 s). */
const fastWindows = 10;
const maxTries = 10;
/** A receiver that was silent so many times has gone. */
const maxSilences = 3;
/** Within this time after an acknowledgement another one may arrive, for a block that was sent twice. */
const repeatedMs = 500;

/** Bootloaders that receive a file, which they place and check themselves: XMODEM and XMODEM-1K with CRC, YMODEM. */
export function xmodem(settings: XmodemSettings = {}): Protocol {
  return startedByReset('xmodem', () => connect(settings));
}

function* connect(settings: XmodemSettings): Conversation<UploadSession> {
  yield* press(settings.uploadKeys);
  yield* awaitReceiver();
  return {
    kind: 'upload',
    chip: unknownChip('XMODEM receiver', 'xmodem'),
    standing: () => withoutIo('unknown'),
    upload: (image, onProgress) => upload(image, settings, onProgress),
    resume: cancel,
    start: () => press(settings.startKeys),
  };
}

function* upload(image: Image, settings: XmodemSettings, onProgress: (doneBytes: number) => void): Conversation<void> {
  const file = onlyPiece(image);
  const ymodem = settings.variant === 'ymodem';
  if (ymodem) {
    yield* sendBlock(0, fileHeader(settings.fileName ?? 'firmware.bin', file.byteLength));
    yield* awaitCall();
  }
  const blockBytes = settings.variant === undefined || settings.variant === 'xmodem' ? smallBytes : largeBytes;
  let number = 1;
  for (let from = 0; from < file.byteLength; number += 1) {
    const restIsSmall = file.byteLength - from <= smallBytes;
    const length = restIsSmall ? smallBytes : blockBytes;
    yield* sendBlock(number & 0xff, file.subarray(from, from + length), length);
    from += length;
    onProgress(Math.min(from, file.byteLength));
  }
  yield* sendEnd();
  if (!ymodem) return;
  yield* awaitCall();
  yield* sendBlock(0, new Uint8Array(smallBytes));
}

/** 7.3: a header, the number and its complement, the data, its CRC. */
function* sendBlock(number: number, data: Uint8Array, length = smallBytes): Conversation<void> {
  const padded = new Uint8Array(length).fill(number === 0 ? 0 : filler);
  padded.set(data);
  const crc = crc16(padded);
  const head = [length === largeBytes ? stx : soh, number, ~number & 0xff];
  yield* sendUntilAcknowledged(Uint8Array.of(...head, ...padded, crc >> 8, crc & 0xff), `block ${number}`);
}

/** 7.3.2: the receiver asks again for a damaged block; it acknowledges and drops one that it received twice. */
function* sendUntilAcknowledged(send: Uint8Array, what: string): Conversation<void> {
  let silences = 0;
  for (let tries = 0; tries < maxTries && silences < maxSilences; tries += 1) {
    const heard = yield* attempt(send, verdict, receiverWorkMs);
    const last = heard.bytes.at(-1);
    if (last === ack && tries > 0) yield* discard(repeatedMs); // each try may be acknowledged
    if (last === ack) return;
    if (last === can) throw new McuError('board-refused', `the receiver cancels the transfer at ${what}`);
    if (!heard.whole) silences += 1;
  }
  throw new McuError(
    silences > 0 ? 'board-timeout' : 'board-bad-response',
    `the receiver does not acknowledge ${what}`,
  );
}

/** An acknowledgement before a refusal belongs to an earlier block: some receivers refuse the first end. */
function* sendEnd(): Conversation<void> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    yield* sendUntilAcknowledged(Uint8Array.of(eot), 'the end of the file');
    if (!(yield* listen(refusal)).whole) return;
  }
  throw new McuError('board-bad-response', 'the receiver refuses the end of the file');
}

/**
 * Waits for a receiver, which calls by a letter at regular intervals, with nothing between its calls. The letter also
 * occurs in texts of applications, which must not get a program as input.
 */
function* awaitReceiver(): Conversation<void> {
  let windows = '';
  let heardBytes = 0;
  while (windows.length < mostWindows && heardBytes <= mostTextBytes) {
    if (windows.length >= patienceWindows && !/c/i.test(windows.slice(-patienceWindows))) break;
    const { bytes } = yield* listen(noReply, windowMs);
    heardBytes += bytes.byteLength;
    windows += windowOf(bytes);
    if (isCalledRegularly(windows)) return;
  }
  throw new McuError('board-timeout', 'no receiver calls for a transfer', {
    advice: 'check that the bootloader waits for XMODEM with CRC, and its baud rate',
  });
}

/** `.` for silence, `C` for a call, `c` for several, `-` for anything else. */
function windowOf(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) return '.';
  if (bytes.some((byte) => byte !== wantsCrc)) return '-';
  return bytes.byteLength === 1 ? 'C' : 'c';
}

/** True after three calls alone at equal intervals, up to the precision of windows and clocks, or after many fast ones. */
function isCalledRegularly(windows: string): boolean {
  const [, first, second] = /(?:^|\.)C(\.+)C(\.+)C\.$/.exec(windows)?.map(({ length }) => length) ?? [];
  if (first !== undefined && second !== undefined && Math.abs(first - second) <= 1 + first / 8) return true;
  return windows.length >= fastWindows && /^(?:[Cc]\.?)+$/.test(windows.slice(-fastWindows));
}

/** Waits for the call of a receiver that has already accepted something. */
function* awaitCall(): Conversation<void> {
  if (!(yield* listen(endsInCall, callMs)).whole) {
    throw new McuError('board-timeout', 'the receiver does not call for the next file');
  }
}

/** Cancels a transfer, which cannot be continued: the receiver is called again after a reset. */
function* cancel(): Conversation<void> {
  yield* say(new Uint8Array(8).fill(can));
  yield* discard();
  throw new McuError('board-timeout', 'the transfer was cancelled');
}

function* press(keys: string | undefined): Conversation<void> {
  if (keys !== undefined) yield* say(Buffer.from(keys, 'latin1'));
}

/** YMODEM, chapter 5: name, zero, length in decimal. */
function fileHeader(name: string, bytes: number): Uint8Array {
  return Buffer.from(`${name.slice(0, 100)}\0${bytes} `, 'latin1');
}

/**
 * Ends at the first byte that decides. A call among the answers to a block is an echo of the beginning, and skipped.
 */
const verdict: Answer = {
  atMost: 1,
  length: (received) => 1 + received.findIndex((byte) => [ack, nak, can].includes(byte)),
};

const refusal: Answer = { atMost: 1, length: (received) => 1 + received.indexOf(nak) };

const endsInCall: Answer = {
  atMost: 1,
  length: (received) => (received.at(-1) === wantsCrc ? received.byteLength : 0),
};
