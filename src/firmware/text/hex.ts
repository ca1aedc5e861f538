import type { EncodingDecoder, EncodingState, Locate } from './encoding.ts';
import { describeByte, textError } from './text-errors.ts';
import { SLICE_BYTES } from './text-kernel.ts';

/** Decodes hexadecimal digits in either case, two for each byte (RFC 4648, section 8). */
export class HexDecoder implements EncodingDecoder {
  readonly #locate: Locate;
  readonly #decoded = Buffer.allocUnsafe(SLICE_BYTES);
  #digit: string;

  constructor(locate: Locate, carry = '') {
    this.#locate = locate;
    this.#digit = carry;
  }

  get state(): EncodingState {
    return { encoding: 'hex', carry: this.#digit };
  }

  decode(text: Buffer): Uint8Array {
    const digits = this.#digit + text.toString('latin1');
    const pairs = digits.length - (digits.length % 2);
    const bytes = this.#decoded.write(digits.slice(0, pairs), 'hex');
    const illegal = digits.slice(2 * bytes).search(/[^0-9a-fA-F]/);
    if (illegal !== -1) {
      const at = 2 * bytes + illegal;
      const why = `${describeByte(digits.charCodeAt(at))} is not a hexadecimal digit`;
      throw textError('text-illegal-character', this.#locate(at - this.#digit.length), why);
    }
    this.#digit = digits.slice(pairs);
    return this.#decoded.subarray(0, bytes);
  }

  finish(endOffset: number): Uint8Array {
    if (this.#digit === '') return new Uint8Array();
    throw textError('text-odd-hex', endOffset, 'the hexadecimal text has an odd number of digits');
  }
}
