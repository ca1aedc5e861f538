import type { KeyObject } from 'node:crypto';

import type { ImageClaims } from '../../update/ports.ts';
import { McuError } from '../errors.ts';
import { readElf } from './elf.ts';
import { isEspImage, readEspImage } from './esp-image.ts';
import { foreignKind } from './foreign-file.ts';
import { isBlank, makeImage, maxImageBytes } from './image.ts';
import type { Image, ImageFormat } from './image.ts';
import { readIntelHex } from './intel-hex.ts';
import { linesOf } from './lines.ts';
import { mcubootHeader, mcubootMagic, readMcuboot } from './mcuboot.ts';
import { readSRecord } from './s-record.ts';
import { readUf2 } from './uf2.ts';

export interface ImageSettings {
  /** The address for a file that has no addresses of its own. */
  readonly address?: number | undefined;
  /** True if a file of no known format is a raw binary, as the caller states. */
  readonly isRaw?: boolean | undefined;
  /** True if only images for MCUboot are accepted, which are uploaded to an SMP server. */
  readonly isForMcuboot?: boolean | undefined;
  /** If set, only images for MCUboot that are signed with this key are accepted. */
  readonly mcubootKey?: KeyObject | undefined;
}

/** The part of a text image in which its first record must be. */
const firstRecordBytes = 65_536;
const mcubootAdvice = 'give the signed binary (zephyr.signed.bin), or sign the application: imgtool sign';
/** The number of bytes that a message shows of an unknown file. */
const shownBytes = 8;

const names: Readonly<Record<ImageFormat, string>> = {
  elf: 'an ELF file',
  uf2: 'a UF2 file',
  mcuboot: 'an image for MCUboot',
  'intel-hex': 'an Intel HEX file',
  's-record': 'an S-record file',
  esp: 'an ESP image',
  raw: 'a raw binary',
};

const readers: Readonly<Record<ImageFormat, (file: Uint8Array, settings: ImageSettings) => Image>> = {
  elf: readElf,
  uf2: readUf2,
  mcuboot: (file, { address = 0, mcubootKey, isForMcuboot }) => readMcuboot(file, address, mcubootKey, isForMcuboot),
  'intel-hex': readIntelHex,
  's-record': readSRecord,
  esp: (file, settings) => readEspImage(file, addressIn(settings, names.esp)),
  raw: (file, settings) => makeImage('raw', [{ address: addressIn(settings, names.raw), bytes: file }]),
};

/** Reads an image of any known format, which its first bytes show. Throws a McuError with an `image-…` code. */
export function readImage(file: Uint8Array, settings: ImageSettings = {}): Image {
  if (file.byteLength > 4 * maxImageBytes) throw new McuError('image-too-large', `${file.byteLength} bytes of image`);
  if (file.byteLength === 0) throw new McuError('image-empty', 'the file is empty');
  const isForMcuboot = settings.isForMcuboot === true || settings.mcubootKey !== undefined;
  const advice = isForMcuboot ? mcubootAdvice : undefined;
  const format = formatOf(file) ?? rawIf(settings.isRaw === true, file, advice);
  if (isForMcuboot && format !== 'mcuboot') {
    const code = settings.mcubootKey === undefined ? 'image-wrong-chip' : 'image-signature';
    throw new McuError(code, `this target takes only images for MCUboot, and the file is ${names[format]}`, { advice });
  }
  const image = readers[format](file, settings);
  if (image.segments.every(({ bytes }) => isBlank(bytes))) {
    throw new McuError('image-empty', 'each byte of the image is 0xFF: writing it would erase the board');
  }
  return image;
}

/** Returns the signed claims of an image for MCUboot. Call this only for files that `readImage` accepted. */
export function claimsOf(file: Uint8Array): ImageClaims {
  if (formatOf(file) !== 'mcuboot') return {};
  const { securityCounter, version } = mcubootHeader(file);
  return { securityCounter, imageVersion: version };
}

/** Returns the format that the file begins with, or undefined for an unknown one. */
function formatOf(file: Uint8Array): ImageFormat | undefined {
  const start = Buffer.from(file.buffer, file.byteOffset, Math.min(16, file.byteLength));
  const word = start.byteLength < 4 ? 0 : start.readUInt32LE(0);
  if (word === 0x464c457f) return 'elf';
  if (word === 0x0a324655) return 'uf2';
  if (word === mcubootMagic) return 'mcuboot';
  if (isEspImage(file)) return 'esp';
  const [first] = linesOf(file.subarray(0, firstRecordBytes));
  const text = first?.text ?? '';
  if (/^:[0-9A-F]{2}/i.test(text)) return 'intel-hex';
  return /^S[0-9][0-9A-F]{2}/i.test(text) ? 's-record' : undefined;
}

/** Throws `image-unknown` for a file that is obviously something else, even if it was declared as raw. */
function rawIf(isStated: boolean, file: Uint8Array, advice: string | undefined): 'raw' {
  const kind = foreignKind(file);
  if (kind === undefined && isStated) return 'raw';
  const beginning = Buffer.from(file.subarray(0, shownBytes)).toString('hex');
  const what = kind ?? `in no known format: it begins with ${beginning}`;
  throw new McuError('image-unknown', `the file is ${what}`, { advice });
}

function addressIn({ address }: ImageSettings, what: string): number {
  if (address !== undefined) return address;
  throw new McuError('image-address-missing', `${what} does not contain its address in the flash memory`, {
    advice: 'give the address in the configuration of the target, or use HEX, S-record, ELF or UF2',
  });
}
