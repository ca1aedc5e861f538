import type { EncodingDecoder, EncodingState, Locate } from './encoding.ts';
import { describeByte, textError } from './text-errors.ts';
import { SLICE_BYTES } from './text-kernel.ts';

const QUANTUM = 4;

/** The longest beginning without a character outside of an alphabet. */
const legal = { base64: /^[A-Za-z0-9+/]*/, base64url: /^[A-Za-z0-9_-]*/ } as const;

type Alphabet = keyof typeof legal;

/**
 * Decodes base64 with padding, or base64url with or without (RFC 4648, sections 3.2, 4 and 5). Unless the alphabet is
 * given, the first character that only one of them has decides. Surplus bits of the last character must be zero
 * (section 3.5): two texts for the same bytes would be a sign of damage.
 */
export class Base64Decoder implements EncodingDecoder {
  readonly #locate: Locate;
  readonly #decoded = Buffer.allocUnsafe(SLICE_BYTES);
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
    const carried = this.#quantum.length;
    const all = this.#quantum + text.toString('latin1');
    this.#alphabet ??= alphabetOf(all);
    const characters = this.#padding > 0 ? this.#quantum : this.#legalBeginning(all);
    const whole = characters.length - (characters.length % QUANTUM);
    this.#quantum = characters.slice(whole);
    for (let at = characters.length; at < all.length; at += 1) this.#takeOther(all.charAt(at), at - carried);
    return this.#decoded.subarray(0, this.#decoded.write(characters.slice(0, whole), this.#alphabet ?? 'base64'));
  }

  /** Buffer skips illegal characters, which the number of bytes shows faster than an expression. */
  #legalBeginning(text: string): string {
    const bulk = text.length - (text.length % QUANTUM);
    const foreign = this.#alphabet === 'base64url' ? ['+', '/'] : ['-', '_'];
    const isLegal =
      this.#decoded.write(text.slice(0, bulk), this.#alphabet ?? 'base64') * QUANTUM === bulk * 3 &&
      !foreign.some((character) => text.includes(character));
    const rest = isLegal ? text.slice(bulk) : text;
    const [beginning = ''] = legal[this.#alphabet ?? 'base64'].exec(rest) ?? [];
    return isLegal ? text.slice(0, bulk + beginning.length) : beginning;
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
    if (tail.toString('base64url') !== this.#quantum.replaceAll('+', '-').replaceAll('/', '_')) {
      throw textError(
        'text-bad-padding',
        endOffset,
        'the last character of the base64 text has bits set that no byte takes',
      );
    }
    return tail;
  }

  /** Takes padding, and refuses everything else behind the characters. */
  #takeOther(character: string, index: number): void {
    const alphabet = this.#alphabet ?? 'base64';
    const found = describeByte(character.charCodeAt(0));
    const isLegal = legal[alphabet].exec(character)?.[0] === character;
    const offset = this.#locate(index);
    if (character !== '=') {
      if (!isLegal) throw textError('text-illegal-character', offset, `${found} is not a character of ${alphabet}`);
      throw textError('text-bad-padding', offset, `${found} stands behind the padding`);
    }
    this.#padding += 1;
    if (this.#quantum.length >= 2 && this.#quantum.length + this.#padding <= QUANTUM) return;
    throw textError('text-bad-padding', offset, `'=' follows base64 text that needs no padding`);
  }
}

/** Returns the alphabet of the first character that only one of them has. */
function alphabetOf(text: string): Alphabet | undefined {
  const [own] = /[+/_-]/.exec(text) ?? [];
  if (own === undefined) return undefined;
  return own === '+' || own === '/' ? 'base64' : 'base64url';
}
