import { McuError } from '../../errors.ts';
import { attempt, exactly, wholeOf } from '../../protocol.ts';
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
/** This number of failed bursts in a row is not the line's fault: the bootloader cannot keep up. */
const mostFailedBursts = 2;

/**
 * Commands that touch memory. They consist of parts, each of which the bootloader acknowledges (ST AN3155, 3.4, 3.6 to
 * 3.8). Waiting for each acknowledgement costs a round trip. A bootloader that reads its UART while it acknowledges
 * also accepts the parts in one burst; a read tests that, and bursts that fail one after the other end it.
 *
 * A burst contains only parts that do no harm when shifted by a byte: if the first one is lost, the bootloader may take
 * two of the others for a command and its complement. Addresses of whole blocks and numbers of pages contain no other
 * command than Get, Get Version and Get ID; the length of a whole block contains none.
 */
export class Stm32Memory {
  #bursts = false;
  #failedBursts = 0;

  /** Tests bursts. `block` was read from the address part by part. */
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

  /** AN3155, 3.6. The data may contain any byte, so it is sent only after the address was acknowledged. */
  *write(address: number, bytes: Uint8Array): Conversation<void> {
    const parts = [commandBytes(command.writeMemory), checked(wordBytes(address))];
    yield* address % blockBytes === 0 ? this.say(parts, exactly(1)) : partByPart(parts, exactly(1));
    yield* acknowledged(checked([bytes.byteLength - 1, ...bytes]), writeWorkMs);
  }

  /** Sends the parts, and returns the answer to the last one, which begins with an acknowledgement. */
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
  const answer = yield* worked(parts.at(-1) ?? new Uint8Array(), last, 0, workMs);
  requireAck(answer[0]);
  return answer;
}

function* inOneBurst(parts: readonly Uint8Array[], last: Answer, workMs = 0): Conversation<Uint8Array> {
  const acks = parts.length - 1;
  const answer = yield* worked(Buffer.concat(parts), afterAcks(acks, last), acks, workMs);
  for (let index = 0; index <= acks; index += 1) requireAck(answer[index]);
  return answer.subarray(acks);
}

/** Returns the answer, which begins with this number of acknowledgements. Throws if the chip is still working then. */
function* worked(send: Uint8Array, answer: Answer, acks: number, workMs: number): Conversation<Uint8Array> {
  const reply = yield* attempt(send, answer, workMs);
  if (workMs === 0 || reply.whole || reply.bytes.byteLength !== acks) return wholeOf(reply);
  const message = `the bootloader accepted a command, and did not complete it within ${workMs / 1000} s`;
  const advice = 'check the supply voltage of the board: a low voltage, or worn flash memory, slows erasing down';
  throw new McuError('board-timeout', message, { advice });
}
