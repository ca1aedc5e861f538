import { McuError } from '../errors.ts';

export interface NumberedLine {
  readonly number: number;
  readonly text: string;
}

/** True if the file begins with a byte order mark of UTF-16, as `>` of PowerShell writes it. */
export function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
}

/** Returns the text of a file, without its byte order mark. */
export function textOf(file: Uint8Array): string {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  if (isUtf16(bytes)) {
    const units = Buffer.from(bytes.subarray(2, bytes.byteLength & ~1));
    return (bytes[0] === 0xfe ? units.swap16() : units).toString('utf16le');
  }
  return (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes).toString('latin1');
}

/**
 * Comments as CCS C (`;`, its `#hexcomment`) and avrdude (`//` behind a record, its format `I`) write them. A record of
 * Intel HEX whose colon was damaged to a semicolon is not a comment: one bit makes the difference.
 */
const comment = /^;(?![0-9A-F]{8}).*|\/\/.*/i;

/** White space, and the characters with which CP/M and padded transfers end a text: NUL and Ctrl-Z. */
const endings = ' \t\r\n\0\u001a';

/**
 * The lines of a text image with their numbers, without blank lines, line ends and comments. A line ends with CR, LF or
 * both.
 */
export function* linesOf(file: Uint8Array): Generator<NumberedLine> {
  const text = textOf(file);
  let end = text.length;
  while (end > 0 && endings.includes(text.charAt(end - 1))) end -= 1;
  let number = 0;
  let from = 0;
  for (const { 0: newline, index } of text.slice(0, end).matchAll(/\r\n?|\n|$/g)) {
    number += 1;
    const line = text.slice(from, index).trim().replace(comment, '').trimEnd();
    if (line !== '') yield { number, text: line };
    from = index + newline.length;
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
