import { McuError } from '../errors.ts';
import { makeImage } from './image.ts';
import type { Image, Segment } from './image.ts';

const headerBytes = 52;
const programHeaderBytes = 32;
const maxProgramHeaders = 256;
const loadable = 1;
const executable = 2;
/** binutils, elf/avr.h: `EF_AVR_MACH`, the architecture as avr-gcc numbers it. */
const avrMachine = 83;
const avrArchitectureMask = 0x7f;

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
  for (const header of programHeaders(view)) {
    const fileBytes = view.getUint32(header + 16, true);
    if (view.getUint32(header, true) !== loadable || fileBytes === 0) continue;
    const offset = view.getUint32(header + 4, true);
    if (offset + fileBytes > file.byteLength) {
      throw new McuError('image-truncated', 'the ELF file ends before a segment does');
    }
    pieces.push({ address: view.getUint32(header + 12, true), bytes: file.subarray(offset, offset + fileBytes) });
  }
  const machine = view.getUint16(18, true);
  const avrArchitecture = machine === avrMachine ? view.getUint32(36, true) & avrArchitectureMask : undefined;
  return makeImage('elf', pieces, { kind: 'elf-machine', machine, avrArchitecture });
}

function programHeaders(view: DataView): number[] {
  const start = view.getUint32(28, true);
  const size = view.getUint16(42, true);
  const count = view.getUint16(44, true);
  if (count > maxProgramHeaders || (count > 0 && size < programHeaderBytes)) {
    throw new McuError('image-malformed', 'the ELF file has impossible program headers');
  }
  if (start + size * count > view.byteLength) {
    throw new McuError('image-truncated', 'the ELF file ends in its program headers');
  }
  return Array.from({ length: count }, (_, index) => start + index * size);
}
