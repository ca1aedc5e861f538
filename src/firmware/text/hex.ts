import type { EncodingDecoder, EncodingState, Locate } from './encoding.ts';
import { describeByte, textError } from './text-errors.ts';
import { SLICE_BYTES } from './text-kernel.ts';

/** Decodes hexadecimal digits in either case, two for each byte (RFC 4648, section 8). */
export class HexDecoder implements EncodingDecoder {
  readonly #locate: Locate;
  readonly #decoded = Buffer.allocUnsafe(SLICE_BYTES);
  #decodedBytes = 0;
  #digit: string;

  constructor(locate: Locate, carry = '') {
    this.#locate = locate;
    this.#digit = carry;
  }

  get state(): EncodingState {
    return { encoding: 'hex', carry: this.#digit };
  }

  decode(text: Buffer): Uint8Array {
    this.#decodedBytes = 0;
    const head = this.#digit === '' ? 0 : 1;
    this.#takeEach(text, 0, Math.min(head, text.length));
    const body = this.#takePairs(text, head);
    this.#takeEach(text, body, text.length);
    return this.#decoded.subarray(0, this.#decodedBytes);
  }

  finish(endOffset: number): Uint8Array {
    if (this.#digit === '') return new Uint8Array();
    throw textError('text-odd-hex', endOffset, 'the hexadecimal text has an odd number of digits');
  }

  /** Decodes the pairs before the first character that is not a digit. Returns the index where it ended. */
  #takePairs(text: Buffer, from: number): number {
    const digits = text.toString('latin1', from, text.length - ((text.length - from) & 1));
    const bytes = this.#decoded.write(digits, this.#decodedBytes, 'hex');
    this.#decodedBytes += bytes;
    return from + 2 * bytes;
  }

  #takeEach(text: Buffer, from: number, to: number): void {
    for (let index = from; index < to; index += 1) {
      const byte = text[index] ?? 0;
      const character = String.fromCharCode(byte);
      if (!/[0-9a-fA-F]/.test(character)) {
        throw textError(
          'text-illegal-character',
          this.#locate(index),
          `${describeByte(byte)} is not a hexadecimal digit`,
        );
      }
      this.#digit += character;
      if (this.#digit.length < 2) continue;
      this.#decoded[this.#decodedBytes] = Number.parseInt(this.#digit, 16);
      this.#decodedBytes += 1;
      this.#digit = '';
    }
  }
}
