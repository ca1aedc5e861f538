import { createHash } from 'node:crypto';

import type { EspTraits } from './esp-traits.ts';

const longHeadBytes = 24;
/** Images for an ESP8266 have no extended header, and so no chip number. */
const shortHeadBytes = 8;
const segmentHeadBytes = 8;
const magic = 0xe9;
/** ESP_IMAGE_MAX_SEGMENTS. */
const maxSegments = 16;
const checksumSeed = 0xef;
const alignment = 16;
/** This byte is 1 if a SHA-256 digest follows the checksum (hash_appended). */
const digestFlagAt = 23;
const digestBytes = 32;
/** A signature begins with this, in the sector behind the image. */
const signatureMagic = 0xe7;
const sectorBytes = 4096;
const pageBytes = 0x1_0000;

/** Addresses for constants, code, data and code in RAM: `soc.h` of ESP-IDF, DROM, IROM, DRAM and IRAM. */
const memoryOf = (chip: number) =>
  chip === 0
    ? { mapped: [0x3f40_0000, 0x3f80_0000, 0x400d_0000, 0x4040_0000] as const, data: 0x3ffb_0000, code: 0x4008_0000 }
    : { mapped: [0x3c00_0000, 0x3e00_0000, 0x4200_0000, 0x4400_0000] as const, data: 0x3fc8_8000, code: 0x4038_0000 };

interface EspSegment {
  readonly loadedTo: number;
  readonly bytes: Uint8Array;
}

/** An image after "Firmware Image Format" of the esptool documentation, without a digest. */
function imageOf(segments: readonly EspSegment[], chip: number | 'esp8266'): Uint8Array {
  const head = Buffer.alloc(chip === 'esp8266' ? shortHeadBytes : longHeadBytes);
  head.writeUInt8(magic, 0);
  head.writeUInt8(segments.length, 1);
  if (chip !== 'esp8266') head.writeUInt16LE(chip, 12);
  const parts = segments.flatMap(({ loadedTo, bytes }) => {
    const segmentHead = Buffer.alloc(segmentHeadBytes);
    segmentHead.writeUInt32LE(loadedTo, 0);
    segmentHead.writeUInt32LE(bytes.byteLength, 4);
    return [segmentHead, bytes];
  });
  const body = Buffer.concat([head, ...parts]);
  const image = Buffer.concat([body], wholeBytes(body.byteLength));
  image.writeUInt8(sumOf(Buffer.concat(segments.map(({ bytes }) => bytes))), image.byteLength - 1);
  return Uint8Array.from(image);
}

/** An image of one segment, as of a small bootloader. */
export function espImage(contents: Uint8Array, chip: number | 'esp8266' = 0, loadedTo = 0x4008_0000): Uint8Array {
  return imageOf([{ loadedTo, bytes: contents }], chip);
}

/**
 * An application as ESP-IDF builds it: constants that begin with its descriptor ("App Image Format"), data, code in flash
 * memory, code in RAM, and a digest.
 */
export function espApplication(contents: Uint8Array, chip = 0): Uint8Array {
  const { mapped, data, code } = memoryOf(chip);
  const described = Uint8Array.of(0x32, 0x54, 0xcd, 0xab, ...contents);
  const quarter = Math.ceil(described.byteLength / 16) * 4;
  const bytesOf = (index: number): Uint8Array => described.subarray(index * quarter, (index + 1) * quarter);
  const placeOf = (index: number): number => longHeadBytes + index * quarter + (index + 1) * segmentHeadBytes;
  const segments = [mapped[0] + placeOf(0), data, mapped[2] + placeOf(2), code].map((loadedTo, index) => ({
    loadedTo,
    bytes: bytesOf(index),
  }));
  return withDigest(imageOf(segments, chip));
}

/** Returns the image with a digest at its end, also if it has one, which a change of the image made wrong. */
export function withDigest(image: Uint8Array): Uint8Array {
  const hasDigest = image[digestFlagAt] === 1;
  const marked = Buffer.from(hasDigest ? image.subarray(0, -digestBytes) : image);
  marked.writeUInt8(1, digestFlagAt);
  return Uint8Array.from(Buffer.concat([marked, digestOf(marked)]));
}

/** True if the ROM starts what the memory begins with. */
export function isWholeEspImage(memory: Uint8Array): boolean {
  const image = Buffer.from(memory);
  return [longHeadBytes, shortHeadBytes].some((headBytes) => bodyOf(image, headBytes) !== undefined);
}

/**
 * `esp_image_format.c` and `bootloader_common_check_chip_validity` of ESP-IDF, and Secure Boot V2 as far as an image
 * without a signature shows.
 */
export function isStartedBy(memory: Uint8Array, { revision = 0, securesBoot }: EspTraits): boolean {
  const image = Buffer.from(memory);
  const [first, last] = [image.readUInt16LE(15), image.readUInt16LE(17)];
  const isWithin = revision >= first && (last === 0 || last === 0xffff || revision <= last);
  const chip = image.readUInt16LE(12);
  const body = bodyOf(image, longHeadBytes);
  if (!isWithin || body === undefined || !body.segments.every((segment) => isLoaded(segment, chip))) return false;
  const hasDigest = image[digestFlagAt] === 1;
  const end = body.end + (hasDigest ? digestBytes : 0);
  if (hasDigest && !digestOf(image.subarray(0, body.end)).equals(image.subarray(body.end, end))) return false;
  return !securesBoot || memory[Math.ceil(end / sectorBytes) * sectorBytes] === signatureMagic;
}

/** A segment in an image, and its place there. */
interface PlacedSegment extends EspSegment {
  readonly at: number;
}

/** `verify_segment_header`: a segment has whole words, and a mapped segment is at the same place of a page. */
function isLoaded({ loadedTo, bytes, at }: PlacedSegment, chip: number): boolean {
  const [data, dataEnd, code, codeEnd] = memoryOf(chip).mapped;
  const isMapped = (loadedTo >= data && loadedTo < dataEnd) || (loadedTo >= code && loadedTo < codeEnd);
  return bytes.byteLength % 4 === 0 && (!isMapped || loadedTo % pageBytes === at % pageBytes);
}

/** Returns the segments and the end of the checksum, or undefined if the checksum is missing or wrong. */
function bodyOf(
  image: Buffer,
  headBytes: number,
): { readonly end: number; readonly segments: readonly PlacedSegment[] } | undefined {
  if (image.readUInt8(0) !== magic || image.readUInt8(1) > maxSegments) return undefined;
  const segments: PlacedSegment[] = [];
  let end = headBytes;
  while (segments.length < image.readUInt8(1)) {
    const at = end + segmentHeadBytes;
    if (at > image.byteLength) return undefined;
    end = at + image.readUInt32LE(at - 4);
    segments.push({ at, loadedTo: image.readUInt32LE(at - segmentHeadBytes), bytes: image.subarray(at, end) });
  }
  const sum = sumOf(Buffer.concat(segments.map(({ bytes }) => bytes)));
  end = wholeBytes(end);
  return end <= image.byteLength && image[end - 1] === sum ? { end, segments } : undefined;
}

/** The size with the padding and the checksum. */
function wholeBytes(bytes: number): number {
  return Math.ceil((bytes + 1) / alignment) * alignment;
}

function digestOf(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

function sumOf(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => sum ^ byte, checksumSeed);
}
