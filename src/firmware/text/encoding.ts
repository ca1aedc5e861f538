import type { Checkpoint } from '../../update/ports.ts';

/** RFC 4648: base64 in section 4, base64url in section 5, hex (base16, here in either case) in section 8. */
export type TextEncoding = Checkpoint['encoding'];

/** `auto`: see detectEncoding. */
export type EncodingSetting = TextEncoding | 'auto';

/** Where a decoder stands between two slices, so that another can go on: its encoding and the characters it holds. */
export type EncodingState = Pick<Checkpoint, 'encoding' | 'carry'>;

/**
 * Turns the characters of an encoding into bytes, strictly. Throws `text-illegal-character`, `text-bad-padding` or
 * `text-odd-hex`. White space does not come here.
 */
export interface EncodingDecoder {
  /** The bytes of one slice of characters, valid until the next call. */
  decode(text: Buffer): Uint8Array;
  /** The bytes that only the end makes sure of. `endOffset` is for errors. */
  finish(endOffset: number): Uint8Array;
  /** Undefined where another decoder cannot go on from, for now. */
  readonly state: EncodingState | undefined;
}

/** Gives the place in the firmware text of a character of the slice that is being decoded. */
export type Locate = (index: number) => number;

/** In text that could also be base64 of zeros, so many other digits make sure that it is hex: one in 2⁴⁹ at random. */
const CERTAINTY_DIGITS = 32;

/**
 * Hex or base64, from the beginning of a text; which base64 shows itself later. A character that is not a hexadecimal
 * digit decides for base64. Digits only are hex, except where they are base64 of zeros, with which images like to begin:
 * nothing but `A`, or, in the beginning of a longer text, hardly anything else. (Base64 of whatever is recognised by its
 * content, artifact, gzip, xz or zstd, has another character among the first six.)
 */
export function detectEncoding(beginning: Buffer, isWhole: boolean): 'hex' | 'base64' {
  let others = 0;
  for (const character of beginning) {
    if (!isHexDigit(character)) return 'base64';
    if (character !== 0x41) others += 1;
  }
  return others >= (isWhole ? 1 : CERTAINTY_DIGITS) ? 'hex' : 'base64';
}

function isHexDigit(character: number): boolean {
  const letter = character | 0x20;
  return (character >= 0x30 && character <= 0x39) || (letter >= 0x61 && letter <= 0x66);
}
