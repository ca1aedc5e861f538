import { McuError } from '../errors.ts';
import { makeImage, maxImageBytes } from '../images/image.ts';
import type { Image, ImageFormat, MadeFor, Segment } from '../images/image.ts';

/** An image as it travels: of each segment its address and its size, both of 32 bits, then its bytes. */
export interface PackedImage {
  readonly about: PackedAbout;
  readonly bytes: Buffer;
}

export interface PackedAbout {
  readonly format: ImageFormat;
  readonly madeFor: MadeFor | undefined;
  /** The size of the packed form. */
  readonly packedBytes: number;
}

const HEAD_BYTES = 8;
const PIECE_BYTES = 512 * 1024;
/** The most segments of what a chip held: each costs memory of its own, here and whenever the record is read. */
export const MAX_HELD_SEGMENTS = 65_536;
/** No memory that is read from a chip is larger: a segment of it has 64 bytes at least. */
export const MAX_PACKED_BYTES = maxImageBytes + maxImageBytes / 8;
/** Each but the last is as long as `piecesOf` makes it. */
export const MAX_PIECES = Math.ceil(MAX_PACKED_BYTES / PIECE_BYTES);

export function packImage({ format, madeFor, segments, sizeBytes }: Image): PackedImage {
  const bytes = Buffer.allocUnsafe(sizeBytes + HEAD_BYTES * segments.length);
  let at = 0;
  for (const segment of segments) {
    bytes.writeUInt32BE(segment.address, at);
    bytes.writeUInt32BE(segment.bytes.byteLength, at + 4);
    bytes.set(segment.bytes, at + HEAD_BYTES);
    at += HEAD_BYTES + segment.bytes.byteLength;
  }
  return { about: { format, madeFor, packedBytes: bytes.byteLength }, bytes };
}

/** Throws McuError for bytes that are no packed image, or one of more segments. */
export function unpackImage(
  { format, madeFor }: Omit<PackedAbout, 'packedBytes'>,
  bytes: Buffer,
  maxSegments = Infinity,
): Image {
  const segments: Segment[] = [];
  for (let at = 0; at < bytes.byteLength;) {
    if (bytes.byteLength - at < HEAD_BYTES || segments.length >= maxSegments) throw malformed();
    const address = bytes.readUInt32BE(at);
    const sizeBytes = bytes.readUInt32BE(at + 4);
    at += HEAD_BYTES;
    if (sizeBytes === 0 || sizeBytes > bytes.byteLength - at) throw malformed();
    segments.push({ address, bytes: bytes.subarray(at, at + sizeBytes) });
    at += sizeBytes;
  }
  return makeImage(format, segments, madeFor);
}

function malformed(): McuError {
  return new McuError('image-malformed', 'an image does not come across as it was packed');
}

/** The bytes in pieces that fit into messages. */
export function* piecesOf(bytes: Buffer): Generator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}
