import { isUtf8 } from 'node:buffer';
import { constants, inflateSync } from 'node:zlib';

import { undefinedIfThrows, systemErrorCode } from '../../system/errors.ts';
import { isUtf16, textOf } from './lines.ts';

/** The name is given by the beginning of a file, or of a text. */
const namingBytes = 4096;
const tarMagicAt = 257;

/**
 * How files begin that are delivered instead of an image by mistake. No program for a microcontroller begins like this: it
 * begins with jumps (AVR), or with a stack pointer in RAM (Cortex-M).
 */
const beginnings: readonly (readonly [kind: string, bytes: string])[] = [
  ['a gzip file', '\u001f\u008b'],
  ['an xz file', '\u00fd7zXZ\0'],
  ['an LZMA file', ']\0\0'],
  ['a Zstandard file', '\u0028\u00b5\u002f\u00fd'],
  ['a bzip2 file', 'BZh'],
  ['an LZ4 file', '\u0004\u0022\u004d\u0018'],
  ['a ZIP archive', 'PK\u0003\u0004'],
  ['a 7-Zip archive', '7z\u00bc\u00af'],
  ['a RAR archive', 'Rar!\u001a\u0007'],
  ['a cpio archive', '07070'],
  ['an ar archive', '!<arch>\n'],
  ['a DfuSe file', 'DfuSe'],
  ['a U-Boot image', '\u0027\u0005\u0019\u0056'],
  ['a device tree or FIT image', '\u00d0\u000d\u00fe\u00ed'],
  ['a PDF file', '%PDF-'],
  ['a PNG picture', '\u0089PNG'],
  ['a GIF picture', 'GIF8'],
  ['a JPEG picture', '\u00ff\u00d8\u00ff'],
  ['an SQLite database', 'SQLite format 3\0'],
  ['a SquashFS file system', 'hsqs'],
  ['an lzip file', 'LZIP'],
  ['a file of compress', '\u001f\u009d'],
  ['a file encrypted by OpenSSL', 'Salted__'],
  ['a Java class', '\u00ca\u00fe\u00ba\u00be'],
  ['a Windows program', 'MZ\u0090\0'],
  ['an S-record file with symbols', '$$ '],
];

const markup = /^\s*<(?:!doctype|html|\?xml)/i;
/** The control characters of texts: tab, ends of lines and pages, and the frame of ASCII-Hex and DOS (STX, ETX, SUB). */
const textControls = new Set([0x02, 0x03, 0x09, 0x0a, 0x0c, 0x0d, 0x1a]);

const texts: readonly (readonly [kind: string, beginning: RegExp])[] = [
  ['a Git LFS pointer, which stands for a file that was not fetched', /^version https:\/\/git-lfs/],
  ['JSON', /^(?:\{|\[\s*[[{"\d])/],
  ['a PEM file', /^-----BEGIN /],
  ['TI-TXT or Verilog hex', /^@[0-9a-f]+\s/i],
  ['Tektronix hex', /^[%/][0-9a-f]{5}/i],
  ['MOS Technology hex', /^;[0-9a-f]{8}/i],
  ['a hex dump', /^(?:[0-9a-f]+:?\s+(?:[0-9a-f]{2,8}\s+){3}|[0-9a-f]{32,}\s)/i],
  ['base64', /^[a-z0-9+/]{16,}={0,2}\s/i],
];

/** True if more than the header (RFC 1950) is there, which the stack pointer of a Cortex-M may begin with, too. */
function isZlib(start: Buffer): boolean {
  const [method, level = 0] = start;
  if (method !== 0x78 || ![0x01, 0x5e, 0x9c, 0xda].includes(level)) return false;
  const isOther = (error: unknown): boolean => systemErrorCode(error) === 'Z_DATA_ERROR';
  const bytes = undefinedIfThrows(isOther, () => inflateSync(start, { finishFlush: constants.Z_SYNC_FLUSH }));
  return bytes !== undefined && bytes.byteLength > 0;
}

/** The kind of a file that is not an image: an archive, a compressed file, or a text. Undefined if it may be one. */
export function foreignKind(file: Uint8Array): string | undefined {
  const bytes = Buffer.from(file.subarray(0, namingBytes));
  const start = bytes.toString('latin1');
  const found = beginnings.find(([, bytes]) => start.startsWith(bytes));
  if (found !== undefined) return found[0];
  if (start.startsWith('ustar', tarMagicAt)) return 'a tar archive';
  if (isZlib(bytes)) return 'a zlib stream';
  if (markup.test(start)) return 'an HTML or XML file';
  if (!isText(file)) return undefined;
  const text = `${textOf(file.subarray(0, namingBytes)).trim()}\n`;
  return texts.find(([, beginning]) => beginning.test(text))?.[0] ?? 'a text';
}

/** Fewer bytes that look like a text in Latin-1 may be something else. */
const leastLatinBytes = 16;

/**
 * True if the file consists of characters only. No program does, since its instructions contain zeros. A text that is not
 * UTF-8 consists mainly of ASCII.
 */
function isText(file: Uint8Array): boolean {
  const bytes = isUtf16(file) ? Buffer.from(textOf(file)) : file;
  if (bytes.some((byte) => byte < 0x20 && !textControls.has(byte))) return false;
  if (isUtf8(bytes)) return true;
  const others = bytes.reduce((sum, byte) => sum + (byte < 0x7f ? 0 : 1), 0);
  return bytes.byteLength >= leastLatinBytes && others <= bytes.byteLength / 4;
}
