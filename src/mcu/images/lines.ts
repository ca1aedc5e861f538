import { McuError } from '../errors.ts';

export interface NumberedLine {
  readonly number: number;
  readonly text: string;
}

/** The lines of a text image with their numbers, without blank lines and line ends. */
export function* linesOf(file: Uint8Array): Generator<NumberedLine> {
  const text = Buffer.from(file.buffer, file.byteOffset, file.byteLength).toString('latin1');
  let number = 0;
  let from = 0;
  while (from < text.length) {
    const newline = text.indexOf('\n', from);
    const to = newline < 0 ? text.length : newline;
    number += 1;
    const line = text.slice(from, to).trim();
    if (line !== '') yield { number, text: line };
    from = to + 1;
  }
}

/** The bytes for an even number of hex digits. */
export function hexBytes(digits: string, line: NumberedLine): Uint8Array {
  if (digits.length % 2 !== 0 || !/^[0-9A-Fa-f]*$/.test(digits)) {
    throw new McuError('image-malformed', `line ${line.number}: not an even number of hex digits`);
  }
  return Buffer.from(digits, 'hex');
}

export function sumOf(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => (sum + byte) & 0xff, 0);
}
