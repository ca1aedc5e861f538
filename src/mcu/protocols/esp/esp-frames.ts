import { McuError } from '../../errors.ts';
import { attempt, listen } from '../../protocol.ts';
import type { Answer, Conversation, Reply } from '../../protocol.ts';

/**
 * Source: Espressif, esptool documentation, "Serial Protocol": "Low Level Protocol". Packets are framed as in SLIP (RFC
 * 1055).
 */
const frameEnd = 0xc0;
const frameEscape = 0xdb;
const escapedEnd = 0xdc;
const escapedEscape = 0xdd;

/** "Command Packet" and "Response Packet": direction, command, size, checksum or value. */
const headBytes = 8;
const fromChip = 1;
/**
 * "ROM Loader Errors": the format of the message is invalid. It is also the answer to a command that the loader lacks.
 */
export const invalidMessage = 0x05;
/** "Checksum": the seed of the XOR over the data to write. */
const checksumSeed = 0xef;

/** The longest answer is a block of flash memory with its status, with every byte escaped. */
const maxFrameBytes = 2 * (headBytes + 68) + 2;
/** Skips at most this number of answers to other commands, and boot texts that look like frames. */
const maxStrayFrames = 16;

export interface EspResponse {
  readonly command: number;
  /** The value of the register that was read; else 0. */
  readonly value: number;
  readonly data: Uint8Array;
}

/** Data with a checksum. If it is wrong, the chip answers with an error, and keeps nothing. */
export interface EspCommand {
  readonly command: number;
  readonly data: Uint8Array;
  readonly checksum?: number | undefined;
  /** The time that the chip may work before it answers. */
  readonly workMs?: number | undefined;
}

/** Ends whatever the chip may have taken for the beginning of a packet. */
export const frameBreak = Uint8Array.of(frameEnd, frameEnd);

export function encodeFrame(packet: Uint8Array): Uint8Array {
  const framed = [frameEnd];
  for (const byte of packet) {
    if (byte === frameEnd) framed.push(frameEscape, escapedEnd);
    else if (byte === frameEscape) framed.push(frameEscape, escapedEscape);
    else framed.push(byte);
  }
  framed.push(frameEnd);
  return Uint8Array.from(framed);
}

/** Decodes the content of a frame. Returns undefined if it contains an invalid escape. */
export function decodeFrame(framed: Uint8Array): Uint8Array | undefined {
  const packet: number[] = [];
  for (let at = 0; at < framed.byteLength; at += 1) {
    const byte = framed[at];
    if (byte === frameEscape) {
      at += 1;
      if (framed[at] !== escapedEnd && framed[at] !== escapedEscape) return undefined;
      packet.push(framed[at] === escapedEnd ? frameEnd : frameEscape);
    } else if (byte !== undefined) packet.push(byte);
  }
  return Uint8Array.from(packet);
}

/** Encodes a "Command Packet". */
export function encodeCommand({ command, data, checksum }: EspCommand): Uint8Array {
  const head = Buffer.alloc(headBytes);
  head.writeUInt8(command, 1);
  head.writeUInt16LE(data.byteLength, 2);
  head.writeUInt32LE(checksum ?? 0, 4);
  return encodeFrame(Buffer.concat([head, data]));
}

/** Decodes a "Response Packet". Returns undefined if the bytes are not one, or are visibly damaged. */
function decodeResponse(packet: Uint8Array): EspResponse | undefined {
  if (packet.byteLength < headBytes + 2) return undefined;
  const bytes = Buffer.from(packet);
  if (bytes.readUInt8(0) !== fromChip || bytes.readUInt16LE(2) !== bytes.byteLength - headBytes) return undefined;
  return { command: bytes.readUInt8(1), value: bytes.readUInt32LE(4), data: bytes.subarray(headBytes) };
}

/** "Checksum", computed only over the data to write. */
export function checksumOf(data: Uint8Array): number {
  return data.reduce((sum, byte) => sum ^ byte, checksumSeed);
}

/** Little-endian words of 32 bits, as parameters are sent. */
export function words(...values: readonly number[]): Uint8Array {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value >>> 0, index * 4);
  return bytes;
}

/** The bytes up to and including the first frame that is not empty. */
const oneFrame: Answer = {
  atMost: maxFrameBytes,
  length: (received) => spanOf(received)?.end ?? 0,
};

function spanOf(received: Uint8Array): { readonly start: number; readonly end: number } | undefined {
  let start = received.indexOf(frameEnd) + 1;
  if (start === 0) return undefined;
  while (received[start] === frameEnd) start += 1;
  const end = received.indexOf(frameEnd, start);
  return end < 0 ? undefined : { start, end: end + 1 };
}

/**
 * Sends one command and returns its response, whatever the status: the first response to this command, or a report that
 * the loader lacks it. Throws `board-timeout` without any response, `board-bad-response` without a useful one.
 */
export function* ask(asked: EspCommand): Conversation<EspResponse> {
  let reply = yield* attempt(encodeCommand(asked), oneFrame, asked.workMs);
  for (let stray = 0; reply.whole && stray < maxStrayFrames; stray += 1) {
    const response = responseIn(reply);
    if (response?.command === asked.command || isLacking(response)) return response;
    reply = yield* listen(oneFrame);
  }
  if (reply.bytes.byteLength === 0) throw new McuError('board-timeout', 'the ROM loader is not responding');
  throw new McuError('board-bad-response', 'the answer of the ROM loader is damaged');
}

/** Ends a packet whose end may have been lost, and returns the response to it. */
export function* answerToBreak(workMs: number): Conversation<EspResponse | undefined> {
  const reply = yield* attempt(frameBreak, oneFrame, workMs);
  return reply.whole ? responseIn(reply) : undefined;
}

function responseIn({ bytes }: Reply): EspResponse | undefined {
  const span = spanOf(bytes);
  const packet = span === undefined ? undefined : decodeFrame(bytes.subarray(span.start, span.end - 1));
  return packet === undefined ? undefined : decodeResponse(packet);
}

/** True if a response reports a missing command. A ROM loader sends it under another name, and more than once. */
function isLacking(response: EspResponse | undefined): response is EspResponse {
  return response !== undefined && response.data[0] !== 0 && response.data[1] === invalidMessage;
}
