import type { EncodingDecoder, EncodingState, Locate } from './encoding.ts';
import { describeByte, textError } from './text-errors.ts';
import { SLICE_BYTES } from './text-kernel.ts';

const PADDING = '='.charCodeAt(0);
const QUANTUM = 4;

/** The characters that only one of the alphabets has. */
const ownCharacters = { base64: ['+', '/'], base64url: ['-', '_'] } as const;

/** The six bits of each character of either alphabet, and ILLEGAL for every other one. */
const ILLEGAL = 0xff;
const bits = new Uint8Array(256).fill(ILLEGAL);
for (const last of ['+/', '-_']) {
  const alphabet = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789${last}`;
  for (const [value, character] of Buffer.from(alphabet).entries()) bits[character] = value;
}

type Alphabet = keyof typeof ownCharacters;

/**
 * Decodes base64 with padding, or base64url with or without (RFC 4648, sections 3.2, 4 and 5). Unless the alphabet is
 * given, the first character that only one of them has decides. Surplus bits of the last character must be zero
 * (section 3.5): two texts for the same bytes would be a sign of damage.
 */
export class Base64Decoder implements EncodingDecoder {
  readonly #locate: Locate;
  readonly #decoded = Buffer.allocUnsafe(SLICE_BYTES);
  #decodedBytes = 0;
  #alphabet: Alphabet | undefined;
  #quantum = '';
  #padding = 0;

  constructor(locate: Locate, alphabet?: Alphabet, carry = '') {
    this.#locate = locate;
    this.#alphabet = alphabet;
    this.#quantum = carry;
  }

  get state(): EncodingState | undefined {
    if (this.#alphabet === undefined || this.#padding > 0) return undefined;
    return { encoding: this.#alphabet, carry: this.#quantum };
  }

  decode(text: Buffer): Uint8Array {
    this.#decodedBytes = 0;
    const head = this.#quantum === '' ? 0 : Math.min(QUANTUM - this.#quantum.length, text.length);
    this.#takeEach(text, 0, head);
    const body = this.#takeQuanta(text, head);
    this.#takeEach(text, body, text.length);
    return this.#decoded.subarray(0, this.#decodedBytes);
  }

  finish(endOffset: number): Uint8Array {
    const characters = this.#quantum.length;
    if (characters === 0) return new Uint8Array();
    const wanted = QUANTUM - characters;
    const mayLackPadding = this.#alphabet !== 'base64' && this.#padding === 0;
    if (characters === 1 || (this.#padding !== wanted && !mayLackPadding)) {
      const why = `the base64 text ends in a group of ${characters} characters with ${this.#padding} of '='`;
      throw textError('text-bad-padding', endOffset, why);
    }
    const tail = Buffer.from(this.#quantum, 'base64');
    const lastBits = bits[this.#quantum.charCodeAt(characters - 1)] ?? 0;
    const surplus = characters === 2 ? 0b001111 : 0b000011;
    if ((lastBits & surplus) !== 0) {
      throw textError(
        'text-bad-padding',
        endOffset,
        'the last character of the base64 text has bits set that no byte takes',
      );
    }
    return tail;
  }

  /** Decodes all whole groups if every character is legal, else none. Returns the index where it ended. */
  #takeQuanta(text: Buffer, from: number): number {
    const end = text.length - ((text.length - from) % QUANTUM);
    if (this.#quantum !== '' || this.#padding > 0 || end === from || this.#isForeign(text)) return from;
    const expected = ((end - from) / QUANTUM) * 3;
    // Buffer skips illegal characters, so the number of bytes shows whether there were any.
    const taken = this.#decoded.write(
      text.toString('latin1', from, end),
      this.#decodedBytes,
      this.#alphabet ?? 'base64',
    );
    if (taken !== expected) return from;
    this.#decodedBytes += taken;
    return end;
  }

  /** Determines the alphabet if the text shows it. True if the text has a character of the other alphabet. */
  #isForeign(text: Buffer | string): boolean {
    const has = (alphabet: Alphabet): boolean => ownCharacters[alphabet].some((character) => text.includes(character));
    if (this.#alphabet !== undefined) return has(this.#alphabet === 'base64' ? 'base64url' : 'base64');
    const base64 = has('base64');
    const base64url = has('base64url');
    if (base64 && base64url) return true;
    if (base64 || base64url) this.#alphabet = base64 ? 'base64' : 'base64url';
    return false;
  }

  #takeEach(text: Buffer, from: number, to: number): void {
    for (let index = from; index < to; index += 1) {
      const character = text[index] ?? 0;
      if (character === PADDING) this.#takePadding(index);
      else this.#takeCharacter(character, index);
    }
  }

  #takePadding(index: number): void {
    this.#padding += 1;
    if (this.#quantum.length >= 2 && this.#quantum.length + this.#padding <= QUANTUM) return;
    throw textError('text-bad-padding', this.#locate(index), `'=' follows base64 text that needs no padding`);
  }

  #takeCharacter(byte: number, index: number): void {
    const character = String.fromCharCode(byte);
    if (bits[byte] === ILLEGAL || this.#isForeign(character)) {
      const name = this.#alphabet ?? 'base64';
      throw textError(
        'text-illegal-character',
        this.#locate(index),
        `${describeByte(byte)} is not a character of ${name}`,
      );
    }
    if (this.#padding > 0) {
      throw textError('text-bad-padding', this.#locate(index), `${describeByte(byte)} stands behind the padding`);
    }
    this.#quantum += character;
    if (this.#quantum.length < QUANTUM) return;
    this.#decodedBytes += this.#decoded.write(this.#quantum, this.#decodedBytes, 'base64');
    this.#quantum = '';
  }
}
