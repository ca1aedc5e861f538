import { createHash } from 'node:crypto';

import { McuError } from '../errors.ts';
import { anyRevision, isBlank, makeImage } from './image.ts';
import type { ChipRevisions, EspImageChip, Image } from './image.ts';

const magic = 0xe9;
/** ESP_IMAGE_MAX_SEGMENTS of ESP-IDF. */
const maxSegments = 16;
const shortHeadBytes = 8;
export const longHeadBytes = 24;
export const segmentHeadBytes = 8;
const checksumSeed = 0xef;
const digestBytes = 32;
const esp32c3 = 5;

interface Body {
  /** The address of the checksum in the file. */
  readonly end: number;
  readonly isRight: boolean;
  /** The addresses that the segments get in the chip's memory. */
  readonly loadedTo: readonly number[];
}

/** ESP-IDF, "App Image Format": the descriptor of an application is behind the headers of image and first segment. */
const descriptorAt = longHeadBytes + segmentHeadBytes;
const descriptorMagic = 0xabcd_5432;
/** Addresses of the flash memory in the chip's memory, for data and code: `soc.h` of ESP-IDF, DROM and IROM. */
const mappedByEsp32 = [0x3f40_0000, 0x3f80_0000, 0x400d_0000, 0x4040_0000] as const;
const mappedByOthers = [0x3c00_0000, 0x3e00_0000, 0x4200_0000, 0x4400_0000] as const;

/** True if the file begins like an ESP image. */
export function isEspImage([first, segments = 0]: Uint8Array): boolean {
  return first === magic && segments >= 1 && segments <= maxSegments;
}

/**
 * Reads an ESP image (esptool documentation, "Firmware Image Format"). Its segments must be complete, and its checksum and
 * its digest right. The long header names the chip; images for an ESP8266 have the short one. More may follow, such as a
 * signature or the next partition. The whole file goes to the address.
 */
export function readEspImage(file: Uint8Array, address: number): Image {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const [long, short] = [bodyOf(bytes, longHeadBytes), bodyOf(bytes, shortHeadBytes)];
  let chip: EspImageChip = 'esp8266';
  let revisions: ChipRevisions | undefined;
  if (long?.isRight === true) {
    checkDigest(bytes, long.end + 1);
    chip = bytes.readUInt16LE(12);
    revisions = revisionsIn(bytes, chip);
  } else if (short?.isRight !== true) {
    if (long === undefined && short === undefined) throw truncated();
    throw new McuError('image-checksum', 'the ESP image does not have the checksum of its segments');
  }
  return makeImage('esp', [{ address, bytes: file }], { kind: 'esp-chip', chip, revisions });
}

/**
 * Returns the revisions that start the image (ESP-IDF, esp_image_header_t; as esptool reads them). Older headers state the
 * first one as a minor number for an ESP32-C3, and as a major one for other chips.
 */
function revisionsIn(head: Buffer, chip: EspImageChip): ChipRevisions {
  const [oldFirst, first, last] = [head.readUInt8(14), head.readUInt16LE(15), head.readUInt16LE(17)];
  const isOld = last === 0 || (last === anyRevision && first === 0);
  return [isOld ? oldFirst * (chip === esp32c3 ? 1 : 100) : first, last === 0 ? anyRevision : last];
}

/** True if bytes other than blank ones follow a whole ESP image with the long header, such as a signature. */
export function hasTrailer(file: Uint8Array): boolean {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const end = (bodyOf(bytes, longHeadBytes)?.end ?? 0) + 1 + (bytes[longHeadBytes - 1] === 1 ? digestBytes : 0);
  return !isBlank(bytes.subarray(end));
}

/** True if a whole ESP image with the long header is an application, and not a bootloader. */
export function isApplication(file: Uint8Array): boolean {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const body = bodyOf(bytes, longHeadBytes);
  return beginsApplication(bytes, body?.isRight === true ? body.loadedTo : []);
}

/**
 * True if these bytes begin an application whose segments get these addresses: it has the descriptor, which older esp-hal
 * and NuttX omit and no bootloader requires, or runs from the flash memory, which only a bootloader maps (`should_map` of
 * `esp_image_format.c`).
 */
export function beginsApplication(head: Buffer, loadedTo: readonly number[]): boolean {
  if (head.byteLength >= descriptorAt + 4 && head.readUInt32LE(descriptorAt) === descriptorMagic) return true;
  const [data, dataEnd, code, codeEnd] = head.readUInt16LE(12) === 0 ? mappedByEsp32 : mappedByOthers;
  return loadedTo.some((to) => (to >= data && to < dataEnd) || (to >= code && to < codeEnd));
}

/** True if these bytes begin an ESP image with the long header, and end before its checksum. */
export function endsEarly(file: Uint8Array): boolean {
  return isEspImage(file) && bodyOf(Buffer.from(file), longHeadBytes) === undefined;
}

/** Walks through the segments; undefined if the file ends before their checksum. */
function bodyOf(bytes: Buffer, headBytes: number): Body | undefined {
  let sum = checksumSeed;
  let end = headBytes;
  const loadedTo: number[] = [];
  for (let segments = bytes.readUInt8(1); segments > 0; segments -= 1) {
    const start = end + segmentHeadBytes;
    if (start > bytes.byteLength) return undefined;
    loadedTo.push(bytes.readUInt32LE(start - segmentHeadBytes));
    end = start + bytes.readUInt32LE(start - 4);
    if (end > bytes.byteLength) return undefined;
    for (const byte of bytes.subarray(start, end)) sum ^= byte;
  }
  end |= 15;
  return end < bytes.byteLength ? { end, isRight: bytes[end] === sum, loadedTo } : undefined;
}

/** Byte 23 is 1 if the SHA-256 digest of everything before it is appended. */
function checkDigest(bytes: Buffer, end: number): void {
  if (bytes[longHeadBytes - 1] !== 1) return;
  if (end + digestBytes > bytes.byteLength) throw truncated();
  const digest = createHash('sha256').update(bytes.subarray(0, end)).digest();
  if (digest.equals(bytes.subarray(end, end + digestBytes))) return;
  throw new McuError('image-digest', 'the ESP image does not match its digest: it was damaged or changed');
}

function truncated(): McuError {
  return new McuError('image-truncated', 'the ESP image ends before its segments, its checksum or its digest do');
}
