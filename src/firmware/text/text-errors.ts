import { FirmwareFormatError } from '../errors.ts';
import type { FormatErrorCode } from '../errors.ts';

/** `offset` counts bytes of the text as the service sends it, with its quotation marks and escapes. */
export function textError(code: FormatErrorCode, offset: number, why: string): FirmwareFormatError {
  return new FirmwareFormatError(code, 'firmware text', offset, why);
}

/** Describes a byte in a message: the character if it is printable, and its number. */
export function describeByte(byte: number): string {
  const number = `0x${byte.toString(16).padStart(2, '0')}`;
  return byte > 0x20 && byte < 0x7f ? `'${String.fromCharCode(byte)}' (${number})` : number;
}
