import type { Checkpoint } from '../../update/ports.ts';

/** Source: RFC 4648: base64 in section 4, base64url in section 5, hex (base16, here in either case) in section 8. */
export type TextEncoding = Checkpoint['encoding'];

/** `auto`: the encoding is detected (detectEncoding). */
export type EncodingSetting = TextEncoding | 'auto';

/**
 * The state of a decoder between two slices, from which another one can continue: its encoding and the characters that
 * it holds.
 */
export type EncodingState = Pick<Checkpoint, 'encoding' | 'carry'>;

/**
 * Decodes characters strictly. Throws `text-illegal-character`, `text-bad-padding` or `text-odd-hex`. White space was
 * removed before.
 */
export interface EncodingDecoder {
  /** The bytes of one slice of characters, valid until the next call. */
  decode(text: Buffer): Uint8Array;
  /** The bytes that only the end makes certain. `endOffset` is for errors. */
  finish(endOffset: number): Uint8Array;
  /** If omitted, another decoder cannot continue here. */
  readonly state: EncodingState | undefined;
}

/** Returns the place in the firmware text of a character of the current slice. */
export type Locate = (index: number) => number;

/**
 * Text that could also be base64 of zeros counts as hex if it has this number of digits other than `A`: by chance, one
 * in 2⁴⁹.
 */
const CERTAINTY_DIGITS = 32;

/**
 * Decides between hex and base64 by the beginning of a text; the alphabet of base64 is determined later. A character
 * other than a hexadecimal digit means base64. Only digits mean hex, unless they look like base64 of zeros, with which
 * images often begin: only `A`, or hardly anything else at the beginning of a longer text. (Base64 of an artifact,
 * gzip, xz or zstd has another character among its first six.)
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
