import { McuError } from '../../errors.ts';
import type { ChipDigest, Conversation } from '../../protocol.ts';
import { acknowledged, checked, commandBytes, requireAck, wordBytes } from './stm32-frames.ts';

/** ST AN3155, 3.13, "Get Checksum": of newer bootloaders, where Get lists it. */
const getChecksum = 0xa1;
/** Reference manuals, "CRC calculation unit": what it uses after a reset. Where they can be chosen, they are given. */
const polynomial = 0x04c1_1db7;
const initial = 0xffff_ffff;
/** The chip goes through its flash memory at a few megabytes a second, with a slow clock at one. */
const workMsPerByte = 1 / 1000;
/** An acknowledgement, perhaps another one when it has computed, the checksum, and the XOR of that. */
const mostAnswerBytes = 7;
const checksumBytes = 4;

/**
 * The digest of a chip whose memory holds these bytes at an address; undefined where what it computes is something else.
 * How often the chip acknowledges at the end is found out.
 */
export function* probeChecksum(address: number, there: Uint8Array): Conversation<ChipDigest | undefined> {
  const answer = yield* compute(address, there.byteLength, mostAnswerBytes);
  const second = yield* compute(address, there.byteLength, mostAnswerBytes);
  // A byte that got lost looks like an acknowledgement less.
  if (Buffer.compare(answer, second) !== 0 || checksumIn(answer) !== checksumOf(there)) return undefined;
  return {
    *ofChip(start, length) {
      const again = yield* compute(start, length, answer.byteLength);
      if (again.byteLength === answer.byteLength) return checksumIn(again);
      throw new McuError('board-garbled', 'the checksum is cut');
    },
    ofBytes: checksumOf,
  };
}

/** Address, words of 32 bits, polynomial and beginning, each acknowledged. */
function* compute(address: number, length: number, answerBytes: number): Conversation<Uint8Array> {
  yield* acknowledged(commandBytes(getChecksum));
  for (const word of [address, length / 4, polynomial]) yield* acknowledged(checked(wordBytes(word)));
  const { bytes } = yield {
    kind: 'exchange',
    send: checked(wordBytes(initial)),
    answer: { atMost: answerBytes, length: ({ byteLength }) => (byteLength >= answerBytes ? answerBytes : 0) },
    workMs: length * workMsPerByte,
    pipelined: false,
  };
  requireAck(bytes[0]);
  return bytes;
}

function checksumIn(answer: Uint8Array): string {
  const bytes = Buffer.from(answer.subarray(-checksumBytes - 1));
  if (bytes.byteLength <= checksumBytes || bytes.reduce((sum, byte) => sum ^ byte, 0) !== 0) {
    throw new McuError('board-garbled', 'the checksum does not come whole');
  }
  return bytes.toString('hex', 0, checksumBytes);
}

/** As the unit computes it: words of 32 bits, little-endian in memory, the most significant bit first. */
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
