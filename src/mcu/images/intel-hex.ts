import { McuError } from '../errors.ts';
import { makeImage } from './image.ts';
import type { Image, Segment } from './image.ts';
import { hexBytes, linesOf, sumOf } from './lines.ts';
import type { NumberedLine } from './lines.ts';

interface HexRecord {
  readonly type: number;
  readonly offset: number;
  readonly data: Uint8Array;
}

/**
 * Intel HEX ("Hexadecimal Object File Format Specification", rev. A, 1988): record types 00 to 05. Start addresses (03,
 * 05) are read and ignored, since a chip starts at its reset vector.
 */
export function readIntelHex(file: Uint8Array): Image {
  const pieces: Segment[] = [];
  let base = 0;
  let ended = false;
  for (const line of linesOf(file)) {
    if (ended) throw new McuError('image-malformed', `line ${line.number}: text after the end record`);
    const record = readRecord(line);
    if (record.type === 0x00) pieces.push({ address: addressOf(record, base, line), bytes: record.data });
    else base = baseAfter(record, base, line);
    ended = record.type === 0x01;
  }
  if (!ended) throw new McuError('image-truncated', 'the Intel HEX file has no end record');
  return makeImage('intel-hex', pieces);
}

function readRecord(line: NumberedLine): HexRecord {
  if (!line.text.startsWith(':')) throw new McuError('image-malformed', `line ${line.number}: no colon at its start`);
  const bytes = hexBytes(line.text.slice(1), line);
  const [length = 0, high = 0, low = 0, type = 0] = bytes;
  if (bytes.byteLength !== length + 5) {
    throw new McuError('image-truncated', `line ${line.number}: its length byte does not match`);
  }
  if (sumOf(bytes) !== 0) throw new McuError('image-checksum', `line ${line.number}: wrong checksum`);
  return { type, offset: (high << 8) | low, data: bytes.subarray(4, 4 + length) };
}

function addressOf(record: HexRecord, base: number, line: NumberedLine): number {
  if (record.offset + record.data.byteLength > 0x10000) {
    throw new McuError('image-malformed', `line ${line.number}: the record wraps around its 64 KiB`);
  }
  return base + record.offset;
}

function baseAfter(record: HexRecord, base: number, line: NumberedLine): number {
  const [high = 0, low = 0] = record.data;
  const expected = { 0x01: 0, 0x02: 2, 0x03: 4, 0x04: 2, 0x05: 4 }[record.type];
  if (expected !== record.data.byteLength) {
    throw new McuError(
      'image-malformed',
      `line ${line.number}: record of unknown type ${record.type}, or of another length`,
    );
  }
  if (record.type === 0x02) return ((high << 8) | low) * 16;
  if (record.type === 0x04) return ((high << 8) | low) * 0x10000;
  return base;
}
