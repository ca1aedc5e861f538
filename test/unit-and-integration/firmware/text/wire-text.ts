import fc from 'fast-check';

import type { TextEncoding } from '../../../../src/firmware/text/encoding.ts';
import { FirmwareTextDecoder } from '../../../../src/firmware/text/firmware-text.ts';
import { AgentError } from '../../../../src/system/errors.ts';

/** Spellings of a character, or of white space between two, in a JSON string (RFC 8259, section 7). */
export type Spelling =
  | 'plain'
  | 'unicode'
  | 'UNICODE'
  | 'slash'
  | 'newline'
  | 'crlf'
  | 'tab'
  | 'unicode-newline'
  | 'space';

const whiteSpace: Partial<Record<Spelling, string>> = {
  newline: '\\n',
  crlf: '\\r\\n',
  tab: '\\t',
  'unicode-newline': '\\u000A',
  space: ' ',
};

/** Returns a JSON string of these characters in these spellings; white space comes before the character. */
export function jsonString(characters: string, spellings: readonly Spelling[] = ['plain']): string {
  if (spellings.every((spelling) => spelling === 'plain')) return `"${characters}"`;
  let text = '';
  for (const [index, character] of characters.split('').entries()) {
    const spelling = spellings[index % spellings.length] ?? 'plain';
    text += (whiteSpace[spelling] ?? '') + spell(character, spelling);
  }
  return `"${text}"`;
}

function spell(character: string, spelling: Spelling): string {
  const code = character.charCodeAt(0).toString(16).padStart(4, '0');
  if (spelling === 'unicode') return `\\u${code}`;
  if (spelling === 'UNICODE') return `\\u${code.toUpperCase()}`;
  return spelling === 'slash' && character === '/' ? '\\/' : character;
}

export const spellings: fc.Arbitrary<Spelling[]> = fc.array(
  fc.oneof(
    { arbitrary: fc.constant<Spelling>('plain'), weight: 12 },
    { arbitrary: fc.constant<Spelling>('slash'), weight: 6 },
    fc.constantFrom<Spelling>('unicode', 'UNICODE', 'newline', 'crlf', 'tab', 'unicode-newline', 'space'),
  ),
  { minLength: 1, maxLength: 40 },
);

export const blank: fc.Arbitrary<string> = fc
  .array(fc.constantFrom(' ', '\n', '\r', '\t'), { maxLength: 4 })
  .map((characters) => characters.join(''));

export type Variant = 'base64' | 'base64url' | 'base64url-unpadded' | 'hex' | 'HEX';
export const variants: readonly Variant[] = ['base64', 'base64url', 'base64url-unpadded', 'hex', 'HEX'];

export function encode(bytes: Uint8Array, variant: Variant): string {
  const buffer = Buffer.from(bytes);
  if (variant === 'hex') return buffer.toString('hex');
  if (variant === 'HEX') return buffer.toString('hex').toUpperCase();
  if (variant === 'base64url-unpadded') return buffer.toString('base64url');
  const base64 = buffer.toString('base64');
  return variant === 'base64' ? base64 : base64.replaceAll('+', '-').replaceAll('/', '_');
}

export function encodingOf(variant: Variant): TextEncoding {
  if (variant === 'base64') return 'base64';
  return variant === 'hex' || variant === 'HEX' ? 'hex' : 'base64url';
}

/** The text in chunks that end at these fractions of it, and at its end. */
export function cutAt(text: Uint8Array, fractions: readonly number[]): Uint8Array[] {
  const cuts = [0, ...fractions.map((fraction) => Math.floor(fraction * text.length)), text.length].sort(
    (a, b) => a - b,
  );
  return cuts.slice(1).map((end, index) => text.subarray(cuts[index], end));
}

export const fractions: fc.Arbitrary<number[]> = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), {
  maxLength: 12,
});

/** Decodes text that comes in these chunks; each is overwritten afterwards, as a network buffer would be. */
export function decodeChunks(
  chunks: readonly Uint8Array[],
  start: ConstructorParameters<typeof FirmwareTextDecoder>[0] = 'auto',
): Buffer {
  const decoder = new FirmwareTextDecoder(start);
  const decoded: Buffer[] = [];
  for (const chunk of chunks) {
    const lent = Uint8Array.from(chunk);
    for (const bytes of decoder.push(lent)) decoded.push(Buffer.from(bytes));
    lent.fill(0x22);
  }
  for (const bytes of decoder.finish()) decoded.push(Buffer.from(bytes));
  return Buffer.concat(decoded);
}

export function decodeText(text: string, start?: ConstructorParameters<typeof FirmwareTextDecoder>[0]): Buffer {
  return decodeChunks([Buffer.from(text, 'latin1')], start);
}

/** `code @offset` of the error that this throws. Anything but an AgentError is thrown on. */
export function failureOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return `${error.code} @${/byte (\d+)/.exec(error.message)?.[1] ?? '?'}`;
  }
  return 'no failure';
}
