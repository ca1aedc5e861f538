import { exactly, exchange } from '../../protocol.ts';
import type { Answer, Conversation } from '../../protocol.ts';
import {
  acknowledged,
  acknowledgedData,
  afterAcks,
  checked,
  commandBytes,
  requireAck,
  wordBytes,
} from './stm32-frames.ts';

const command = { readMemory: 0x11, writeMemory: 0x31 } as const;

/** The most that one command reads or writes. */
export const blockBytes = 256;
/** Programming 256 bytes: the slowest families take 70 µs per half-word. */
const writeWorkMs = 20;
/** So many in a row are not the line's fault: the bootloader does not follow. */
const mostFailedBursts = 2;

/**
 * Commands that touch memory: parts, each of which the bootloader acknowledges (ST AN3155, 3.4, 3.6 to 3.8). Waiting for
 * that costs a round trip a part. A bootloader that reads its UART while it acknowledges takes the parts in one burst as
 * well; whether it does is tried with a read, and given up when bursts fail one after the other.
 *
 * Only parts that can do no harm shifted by a byte go in a burst: where the first is lost, the bootloader takes two of the
 * others for a command and its complement. Addresses of whole blocks and numbers of pages hold none but Get, Get Version
 * and Get ID; the length of a whole block is none.
 */
export class Stm32Memory {
  #bursts = false;
  #failedBursts = 0;

  /** `block`: what one at the address was read as, part by part. */
  *tryBursts(address: number, block: Uint8Array): Conversation<void> {
    const again = yield* inOneBurst(readParts(address, blockBytes), acknowledgedData(blockBytes));
    this.#bursts = Buffer.compare(again.subarray(1), block) === 0;
  }

  /** AN3155, 3.4. */
  *read(address: number, length: number): Conversation<Uint8Array> {
    const parts = readParts(address, length);
    const answer = acknowledgedData(length);
    const isWhole = address % blockBytes === 0 && length === blockBytes;
    const data = isWhole ? yield* this.say(parts, answer) : yield* partByPart(parts, answer);
    return data.subarray(1);
  }

  /** AN3155, 3.6. What is written may hold anything: it is sent when the address is known to be understood. */
  *write(address: number, bytes: Uint8Array): Conversation<void> {
    const parts = [commandBytes(command.writeMemory), checked(wordBytes(address))];
    yield* address % blockBytes === 0 ? this.say(parts, exactly(1)) : partByPart(parts, exactly(1));
    yield* acknowledged(checked([bytes.byteLength - 1, ...bytes]), writeWorkMs);
  }

  /** Gives the answer to the last part, which begins with an acknowledgement. */
  *say(parts: readonly Uint8Array[], last: Answer, workMs = 0): Conversation<Uint8Array> {
    if (!this.#bursts) return yield* partByPart(parts, last, workMs);
    try {
      const answer = yield* inOneBurst(parts, last, workMs);
      this.#failedBursts = 0;
      return answer;
    } catch (error) {
      this.#failedBursts += 1;
      if (this.#failedBursts >= mostFailedBursts) this.#bursts = false;
      throw error;
    }
  }
}

function readParts(address: number, length: number): readonly Uint8Array[] {
  return [commandBytes(command.readMemory), checked(wordBytes(address)), commandBytes(length - 1)];
}

function* partByPart(parts: readonly Uint8Array[], last: Answer, workMs = 0): Conversation<Uint8Array> {
  for (const part of parts.slice(0, -1)) yield* acknowledged(part);
  const answer = yield* exchange(parts.at(-1) ?? new Uint8Array(), last, workMs);
  requireAck(answer[0]);
  return answer;
}

function* inOneBurst(parts: readonly Uint8Array[], last: Answer, workMs = 0): Conversation<Uint8Array> {
  const acks = parts.length - 1;
  const answer = yield* exchange(Buffer.concat(parts), afterAcks(acks, last), workMs);
  for (let index = 0; index <= acks; index += 1) requireAck(answer[index]);
  return answer.subarray(acks);
}
