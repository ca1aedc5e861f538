import { createHash } from 'node:crypto';

import { McuError } from '../errors.ts';
import { makeImage, maxImageBytes } from './image.ts';
import type { Image, Segment } from './image.ts';

const blockBytes = 512;
const firstMagic = 0x0a324655;
const secondMagic = 0x9e5d5157;
const lastMagic = 0x0ab16f30;
const dataEnd = 508;
/** Address and length of a region ("MD5 checksum"), and its digest. */
const md5At = dataEnd - 24;
const notForFlash = 0x0001;
const holdsFiles = 0x1000;
const namesFamily = 0x2000;
const holdsMd5 = 0x4000;

interface Uf2Block {
  readonly flags: number;
  readonly address: number;
  readonly number: number;
  readonly count: number;
  readonly family: number | undefined;
  readonly bytes: Uint8Array;
}

/**
 * UF2 (github.com/microsoft/uf2, "File format"): every block must occur exactly once, and those for the flash memory must
 * name one chip family. "It is recommended that new bootloaders […] refuse to flash UF2 files without it."
 */
export function readUf2(file: Uint8Array): Image {
  if (file.byteLength % blockBytes !== 0 || file.byteLength > 2 * maxImageBytes) {
    throw new McuError('image-truncated', 'the UF2 file is not a whole number of 512-byte blocks');
  }
  const blocks = Array.from({ length: file.byteLength / blockBytes }, (_, index) =>
    readBlock(file.subarray(index * blockBytes, (index + 1) * blockBytes), index),
  );
  if (blocks.some(({ flags }) => (flags & holdsFiles) !== 0)) {
    throw new McuError('image-unsupported', 'the UF2 file is a container of files, not the content of a flash memory');
  }
  const forFlash = blocks.filter(({ flags }) => (flags & notForFlash) === 0);
  const [first] = forFlash;
  if (first === undefined) throw new McuError('image-empty', 'the UF2 file holds nothing for the flash memory');
  const { family } = first;
  if (forFlash.some((block) => block.family !== family)) {
    throw new McuError('image-wrong-chip', 'the UF2 file is for several chip families; give one of them');
  }
  if (family === undefined) {
    throw new McuError('image-wrong-chip', 'the UF2 file does not name the chip family that it is for');
  }
  checkSequence(blocks, first);
  const pieces: Segment[] = forFlash.map(({ address, bytes }) => ({ address, bytes }));
  return makeImage('uf2', pieces, { kind: 'uf2-family', family });
}

function readBlock(block: Uint8Array, index: number): Uf2Block {
  const view = new DataView(block.buffer, block.byteOffset, blockBytes);
  const word = (offset: number): number => view.getUint32(offset, true);
  if (word(0) !== firstMagic || word(4) !== secondMagic || word(dataEnd) !== lastMagic) {
    throw new McuError('image-malformed', `UF2 block ${index}: wrong magic numbers`);
  }
  const [flags, address, length] = [word(8), word(12), word(16)];
  const hasMd5 = (flags & holdsMd5) !== 0;
  const end = 32 + length;
  if (end > (hasMd5 ? md5At : dataEnd)) throw new McuError('image-malformed', `UF2 block ${index}: payload too long`);
  const bytes = block.subarray(32, end);
  // esptool puts the checksum behind the payload. With a larger region, it describes the content of the flash memory
  const at = hasMd5 ? [md5At, end].find((place) => word(place) === address && word(place + 4) === length) : undefined;
  const md5 = at === undefined ? undefined : block.subarray(at + 8, at + 24);
  if (md5 !== undefined && !createHash('md5').update(bytes).digest().equals(md5)) {
    throw new McuError('image-checksum', `UF2 block ${index}: its data does not match its MD5 checksum`);
  }
  const family = (flags & namesFamily) === 0 ? undefined : word(28);
  return { flags, address, number: word(20), count: word(24), family, bytes };
}

function checkSequence(blocks: readonly Uf2Block[], first: Uf2Block): void {
  const seen = new Set<number>();
  for (const { number } of blocks) {
    if (seen.has(number)) throw new McuError('image-malformed', `the UF2 file has block ${number} twice`);
    seen.add(number);
  }
  const isConsistent = blocks.every(({ number, count }) => number < count && count === first.count);
  if (!isConsistent || seen.size !== first.count) {
    throw new McuError('image-truncated', `the UF2 file has ${seen.size} of ${first.count} blocks`);
  }
}
