import { createHash } from 'node:crypto';

import { hex, McuError } from '../errors.ts';

/** No image of a board is larger; a file that claims more is refused. */
export const maxImageBytes = 64 * 1024 * 1024;

/** Blank parts of a chip's memory are left out of a backup in pieces of this size. */
const grainBytes = 64;

export type ImageFormat = 'intel-hex' | 's-record' | 'elf' | 'uf2' | 'mcuboot' | 'esp' | 'raw';

/** Consecutive bytes of the chip's memory. */
export interface Segment {
  readonly address: number;
  readonly bytes: Uint8Array;
}

/** The chip that a file names as its target. HEX, S-record and raw files name none. */
export type IntendedChip =
  | {
      readonly kind: 'elf-machine';
      readonly machine: number;
      readonly avrArchitecture?: number | undefined;
      /** The name of the device, as avr-gcc spells it. */
      readonly avrDevice?: string | undefined;
    }
  | { readonly kind: 'uf2-family'; readonly family: number }
  | { readonly kind: 'esp-chip'; readonly chip: EspImageChip; readonly revisions?: ChipRevisions | undefined };

/** A last revision that excludes none. */
export const anyRevision = 0xffff;

/** The first and the last revision of a chip, each as 100 times the major and the minor number. */
export type ChipRevisions = readonly [first: number, last: number];

/** The chip number in the header of ESP images. Images for an ESP8266 have a shorter header without one. */
export type EspImageChip = number | 'esp8266';

/** The content for a chip: segments sorted by address that neither overlap nor touch. */
export interface Image {
  readonly format: ImageFormat;
  readonly segments: readonly Segment[];
  readonly sizeBytes: number;
  /** `sha256:` and the hex digest of addresses and bytes: two files that flash the same have the same digest. */
  readonly digest: string;
  readonly madeFor: IntendedChip | undefined;
}

/** Sorts and joins the pieces of a file. Refuses overlaps, addresses beyond 2³², and files without any byte. */
export function makeImage(format: ImageFormat, pieces: readonly Segment[], madeFor?: IntendedChip): Image {
  const sizeBytes = pieces.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  if (sizeBytes === 0) throw new McuError('image-empty', `the ${format} image holds no bytes`);
  if (sizeBytes > maxImageBytes) {
    throw new McuError('image-too-large', `the ${format} image has ${sizeBytes} bytes, more than ${maxImageBytes}`);
  }
  const segments = join(pieces.filter((piece) => piece.bytes.byteLength > 0));
  return { format, segments, sizeBytes, digest: digestOf(segments), madeFor };
}

export function endOf(segment: Segment): number {
  return segment.address + segment.bytes.byteLength;
}

/** True if the image fills a part of the units from `start` to `end`, so that writing it erases them. */
export function touches({ segments }: Image, start: number, end: number, unitBytes: number): boolean {
  return segments.some(
    (segment) =>
      segment.address < Math.ceil(end / unitBytes) * unitBytes && endOf(segment) > start - (start % unitBytes),
  );
}

/** The bytes from `start` to `end`, with `filler` where the image has none. */
export function sliceOf(image: Image, start: number, end: number, filler = 0xff): Uint8Array {
  const slice = new Uint8Array(end - start).fill(filler);
  for (const segment of image.segments) {
    const from = Math.max(start, segment.address);
    const to = Math.min(end, endOf(segment));
    if (from < to) slice.set(segment.bytes.subarray(from - segment.address, to - segment.address), from - start);
  }
  return slice;
}

/** Returns the bytes of an image for a protocol without addresses. Throws for one with a gap. */
export function onlyPiece({ segments }: Image): Uint8Array {
  const [only] = segments;
  if (only !== undefined && segments.length === 1) return only.bytes;
  throw new McuError(
    'image-unsupported',
    `a file of ${segments.length} pieces cannot be sent over XMODEM, which knows no addresses`,
    { advice: 'make a binary image of it' },
  );
}

export function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0xff);
}

/** Returns the memory of a chip as an image without its blank parts, or undefined if all of it is blank. */
export function imageOfMemory(memory: Uint8Array, start: number): Image | undefined {
  const pieces: Segment[] = [];
  for (let at = 0; at < memory.byteLength; at += grainBytes) {
    const bytes = memory.subarray(at, at + grainBytes);
    if (!isBlank(bytes)) pieces.push({ address: start + at, bytes });
  }
  return pieces.length === 0 ? undefined : makeImage('raw', pieces);
}

function join(pieces: readonly Segment[]): Segment[] {
  const sorted = [...pieces].sort((a, b) => a.address - b.address);
  const runs: { readonly address: number; readonly parts: Uint8Array[] }[] = [];
  let end = -1;
  for (const piece of sorted) {
    const { address, bytes } = piece;
    if (address < end) throw new McuError('image-overlap', `the image gives the bytes at ${hex(address)} twice`);
    if (address === end) runs.at(-1)?.parts.push(bytes);
    else runs.push({ address, parts: [bytes] });
    end = endOf(piece);
  }
  if (end > 2 ** 32) throw new McuError('image-malformed', `the image reaches beyond 32-bit addresses: ${hex(end)}`);
  return runs.map(({ address, parts }) => ({ address, bytes: joined(parts) }));
}

/** A single part is not copied. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts;
  return only !== undefined && parts.length === 1 ? only : Buffer.concat(parts);
}

function digestOf(segments: readonly Segment[]): string {
  const hash = createHash('sha256');
  for (const segment of segments) {
    hash.update(`${segment.address}+${segment.bytes.byteLength}:`);
    hash.update(segment.bytes);
  }
  return `sha256:${hash.digest('hex')}`;
}
