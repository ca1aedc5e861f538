import { hex, McuError } from '../../errors.ts';
import { exactly, exchange } from '../../protocol.ts';
import type { Answer, Conversation } from '../../protocol.ts';

/** Source: ST AN3155, "USART protocol used in the STM32 bootloader", 3. */
export const ack = 0x79;
export const nack = 0x1f;

export function* acknowledged(send: Uint8Array, workMs = 0): Conversation<void> {
  const answer = yield* exchange(send, exactly(1), workMs);
  requireAck(answer[0]);
}

export function requireAck(byte: number | undefined): void {
  if (byte === ack) return;
  if (byte === nack) throw new McuError('board-refused', 'the bootloader refuses a command');
  throw new McuError('board-bad-response', `the bootloader answers ${hex(byte ?? 0)}`);
}

/** A command with its complement. */
export function commandBytes(code: number): Uint8Array {
  return Uint8Array.of(code, ~code & 0xff);
}

/** Bytes with their XOR, as everything except commands is sent. */
export function checked(bytes: readonly number[]): Uint8Array {
  return Uint8Array.of(
    ...bytes,
    bytes.reduce((sum, byte) => sum ^ byte, 0),
  );
}

/** A word with its most significant byte first. */
export function wordBytes(word: number): number[] {
  return [word >>> 24, (word >>> 16) & 0xff, (word >>> 8) & 0xff, word & 0xff];
}

/** An acknowledgement, a count N, N + 1 bytes, and an acknowledgement; or a refusal alone. */
export const counted: Answer = {
  atMost: 259,
  length: (received) => {
    const [first, count] = received;
    if (first !== undefined && first !== ack) return 1;
    return count !== undefined && received.byteLength >= count + 4 ? count + 4 : 0;
  },
};

/** An acknowledgement and data, or a refusal alone. */
export function acknowledgedData(bytes: number): Answer {
  return {
    atMost: bytes + 1,
    length: (received) => {
      if (received.byteLength > 0 && received[0] !== ack) return 1;
      return received.byteLength >= bytes + 1 ? bytes + 1 : 0;
    },
  };
}

/** Expects this number of acknowledgements and then an answer; or everything up to the first refusal. */
export function afterAcks(acks: number, last: Answer): Answer {
  return {
    atMost: acks + last.atMost,
    length: (received) => {
      const refusal = received.subarray(0, acks).findIndex((byte) => byte !== ack);
      if (refusal >= 0) return refusal + 1;
      const length = received.byteLength > acks ? last.length(received.subarray(acks)) : 0;
      return length === 0 ? 0 : acks + length;
    },
  };
}
