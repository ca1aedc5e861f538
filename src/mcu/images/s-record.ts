import { McuError } from '../errors.ts';
import { makeImage } from './image.ts';
import type { Image, Segment } from './image.ts';
import { hexBytes, linesOf, sumOf } from './lines.ts';
import type { NumberedLine } from './lines.ts';

interface SRecord {
  readonly type: string;
  readonly body: Uint8Array;
}

/** The number of address bytes of each type of record: S1 to S3 are data, S5 and S6 counts, S7 to S9 ends. */
const addressBytes: Readonly<Record<string, number>> = { S1: 2, S2: 3, S3: 4, S5: 2, S6: 3, S7: 4, S8: 3, S9: 2 };
const counts = new Set(['S5', 'S6']);
const ends = new Set(['S7', 'S8', 'S9']);

/**
 * Motorola S-records (M68000 Family Programmer's Reference Manual, appendix C). srec_cat writes no end record, but a count
 * of the data records; that shows as well that the file is complete.
 */
export function readSRecord(file: Uint8Array): Image {
  const pieces: Segment[] = [];
  let last = 'S0';
  for (const line of linesOf(file)) {
    if (ends.has(last)) throw new McuError('image-malformed', `line ${line.number}: text after the end record`);
    const { type, body } = readRecord(line);
    last = type;
    if (type === 'S0') continue;
    const width = addressBytes[type];
    if (width === undefined || body.byteLength < width) {
      throw new McuError('image-malformed', `line ${line.number}: unknown record ${type}`);
    }
    const address = Buffer.from(body).readUIntBE(0, width);
    if (counts.has(type)) checkCount(address, pieces.length, line);
    else if (!ends.has(type)) pieces.push({ address, bytes: body.subarray(width) });
  }
  if (!ends.has(last) && !counts.has(last)) {
    throw new McuError('image-truncated', 'the S-record file has neither an end record nor a count at its end');
  }
  return makeImage('s-record', pieces);
}

function readRecord(line: NumberedLine): SRecord {
  const bytes = hexBytes(line.text.slice(2), line);
  const [length = 0] = bytes;
  if (bytes.byteLength !== length + 1 || length < 1) {
    throw new McuError('image-truncated', `line ${line.number}: its length byte does not match`);
  }
  if (sumOf(bytes) !== 0xff) throw new McuError('image-checksum', `line ${line.number}: wrong checksum`);
  return { type: line.text.slice(0, 2).toUpperCase(), body: bytes.subarray(1, -1) };
}

function checkCount(stated: number, seen: number, line: NumberedLine): void {
  if (stated === seen) return;
  throw new McuError('image-truncated', `line ${line.number}: ${stated} data records promised, ${seen} found`);
}
