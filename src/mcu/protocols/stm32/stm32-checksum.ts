import { McuError } from '../../errors.ts';
import { attempt, exactly } from '../../protocol.ts';
import type { ChipDigest, Conversation } from '../../protocol.ts';
import { acknowledged, checked, commandBytes, requireAck, wordBytes } from './stm32-frames.ts';

/** ST AN3155, 3.13, "Get Checksum": newer bootloaders have it, and list it in Get. */
const getChecksum = 0xa1;
/**
 * The parameters of the unit after a reset (reference manuals, "CRC calculation unit"). They are sent where they can be
 * chosen.
 */
const polynomial = 0x04c1_1db7;
const initial = 0xffff_ffff;
/** The chip reads its flash memory at a few megabytes per second, or at one with a slow clock. */
const workMsPerByte = 1 / 1000;
/** An acknowledgement, perhaps a second one after the computation, the checksum, and its XOR. */
const mostAnswerBytes = 7;
const checksumBytes = 4;

/**
 * Returns the digest function of a chip that holds these bytes at an address, or undefined if the chip computes
 * something else. Finds out, too, whether the chip sends a second acknowledgement.
 */
export function* probeChecksum(address: number, there: Uint8Array): Conversation<ChipDigest | undefined> {
  const answer = yield* compute(address, there.byteLength, mostAnswerBytes);
  const second = yield* compute(address, there.byteLength, mostAnswerBytes);
  // a lost byte looks like a missing acknowledgement
  if (Buffer.compare(answer, second) !== 0 || checksumIn(answer) !== checksumOf(there)) return undefined;
  return {
    *ofChip(start, length) {
      const again = yield* compute(start, length, answer.byteLength);
      if (again.byteLength === answer.byteLength) return checksumIn(again);
      throw new McuError('board-bad-response', 'the checksum is truncated');
    },
    ofBytes: checksumOf,
  };
}

/** Sends address, number of 32-bit words, polynomial and initial value, each of which is acknowledged. */
function* compute(address: number, length: number, answerBytes: number): Conversation<Uint8Array> {
  yield* acknowledged(commandBytes(getChecksum));
  for (const word of [address, length / 4, polynomial]) yield* acknowledged(checked(wordBytes(word)));
  const { bytes } = yield* attempt(checked(wordBytes(initial)), exactly(answerBytes), length * workMsPerByte);
  requireAck(bytes[0]);
  return bytes;
}

function checksumIn(answer: Uint8Array): string {
  const bytes = Buffer.from(answer.subarray(-checksumBytes - 1));
  if (bytes.byteLength <= checksumBytes || bytes.reduce((sum, byte) => sum ^ byte, 0) !== 0) {
    throw new McuError('board-bad-response', 'the checksum is incomplete');
  }
  return bytes.toString('hex', 0, checksumBytes);
}

/** The checksum as the unit computes it: 32-bit words, little-endian in memory, most significant bit first. */
function checksumOf(bytes: Uint8Array): string {
  let crc = initial;
  for (let at = 0; at < bytes.byteLength; at += 4) {
    for (let within = 3; within >= 0; within -= 1) {
      crc = (crc << 8) ^ (table[(crc >>> 24) ^ (bytes[at + within] ?? 0xff)] ?? 0);
    }
  }
  return (crc >>> 0).toString(16).padStart(2 * checksumBytes, '0');
}

const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 24;
  for (let bit = 0; bit < 8; bit += 1) crc = crc < 0 ? (crc << 1) ^ polynomial : crc << 1;
  return crc;
});
