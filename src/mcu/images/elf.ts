import { McuError } from '../errors.ts';
import { makeImage } from './image.ts';
import type { Image, Segment } from './image.ts';

const headerBytes = 52;
/** The offsets in the ELF header of the address of a table, and of the size and number of its headers. */
const tables = {
  program: { start: 28, size: 42, count: 44, leastBytes: 32 },
  section: { start: 32, size: 46, count: 48, leastBytes: 40 },
} as const;
const maxHeaders = 256;
const loadable = 1;
const executable = 2;
const noteSection = 7;
const withoutBytes = 8;
const allocated = 2;
/** binutils, elf/avr.h: `EF_AVR_MACH`, the architecture as avr-gcc numbers it. */
const avrMachine = 83;
const avrArchitectureMask = 0x7f;
const mostNameBytes = 32;

/**
 * Reads ELF files with 32 bits, little-endian (System V ABI, "Object Files"). It takes the loadable program headers
 * that have bytes in the file, at their physical addresses, where the bytes lie in flash.
 */
export function readElf(file: Uint8Array): Image {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.byteLength < headerBytes) throw new McuError('image-truncated', 'the ELF file ends in its header');
  if (view.getUint8(4) !== 1 || view.getUint8(5) !== 1) {
    throw new McuError('image-wrong-chip', 'the ELF file is not a 32-bit little-endian one');
  }
  if (view.getUint16(16, true) !== executable) {
    throw new McuError('image-malformed', 'the ELF file is not an executable: link it first');
  }
  const pieces: Segment[] = [];
  for (const header of headersIn(view, 'program')) {
    const fileBytes = view.getUint32(header + 16, true);
    if (view.getUint32(header, true) !== loadable || fileBytes === 0) continue;
    const offset = view.getUint32(header + 4, true);
    const bytes = pieceOf(file, offset, fileBytes);
    const skipped = headBytes(view, offset, offset + fileBytes);
    pieces.push({ address: view.getUint32(header + 12, true) + skipped, bytes: bytes.subarray(skipped) });
  }
  const machine = view.getUint16(18, true);
  if (machine !== avrMachine) return makeImage('elf', pieces, { kind: 'elf-machine', machine });
  const avrArchitecture = view.getUint32(36, true) & avrArchitectureMask;
  return makeImage('elf', pieces, {
    kind: 'elf-machine',
    machine,
    avrArchitecture,
    avrDevice: avrDeviceIn(file, view),
  });
}

/**
 * Returns the number of bytes before the first section of a segment that holds the headers of the file: linkers put them
 * there if the alignment of pages leaves room. Tools that convert the file leave them out, too.
 */
function headBytes(view: DataView, start: number, end: number): number {
  if (start >= view.getUint32(tables.program.start, true)) return 0;
  const sections = headersIn(view, 'section').filter(
    (header) =>
      (view.getUint32(header + 8, true) & allocated) !== 0 && view.getUint32(header + 4, true) !== withoutBytes,
  );
  const offsets = sections.map((header) => view.getUint32(header + 16, true));
  const first = Math.min(...offsets.filter((offset) => offset >= start && offset < end));
  if (first !== Infinity) return first - start;
  throw new McuError('image-malformed', 'a segment of the ELF file holds the headers of the file, and no section', {
    advice: 'link it with --nmagic, and keep its sections',
  });
}

/**
 * Returns the device that a program was linked for, or undefined if it does not name one. Source: binutils,
 * od-elf32_avr.c, and the files that avr-gcc 5.4 links: three words, "AVR", six words about memories, the size of the
 * offset table with itself, the offset of the name in the strings behind the table.
 */
function avrDeviceIn(file: Uint8Array, view: DataView): string | undefined {
  for (const header of headersIn(view, 'section')) {
    if (view.getUint32(header + 4, true) !== noteSection) continue;
    const note = Buffer.from(pieceOf(file, view.getUint32(header + 16, true), view.getUint32(header + 20, true)));
    if (note.byteLength < 48 || note.readUInt32LE(8) !== 1 || note.toString('latin1', 12, 16) !== 'AVR\0') continue;
    const name = 40 + note.readUInt32LE(40) + note.readUInt32LE(44);
    return note.toString('latin1', name, name + mostNameBytes).replace(/\W.*/s, '');
  }
  return undefined;
}

function pieceOf(file: Uint8Array, offset: number, bytes: number): Uint8Array {
  if (offset + bytes <= file.byteLength) return file.subarray(offset, offset + bytes);
  throw new McuError('image-truncated', 'the ELF file ends before its last segment or section');
}

function headersIn(view: DataView, table: keyof typeof tables): number[] {
  const { leastBytes, ...at } = tables[table];
  const start = view.getUint32(at.start, true);
  const size = view.getUint16(at.size, true);
  const count = view.getUint16(at.count, true);
  if (count > maxHeaders || (count > 0 && size < leastBytes)) {
    throw new McuError('image-malformed', `the ELF file has impossible ${table} headers`);
  }
  if (start + size * count > view.byteLength) {
    throw new McuError('image-truncated', `the ELF file ends in its ${table} headers`);
  }
  return Array.from({ length: count }, (_, index) => start + index * size);
}
