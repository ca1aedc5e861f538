import type { KeyObject } from 'node:crypto';

import type { ImageClaims } from '../../update/ports.ts';
import { McuError } from '../errors.ts';
import { readElf } from './elf.ts';
import { makeImage, maxImageBytes } from './image.ts';
import type { Image, ImageFormat, MadeFor } from './image.ts';
import { readIntelHex } from './intel-hex.ts';
import { mcubootHeader, mcubootMagic, readMcuboot } from './mcuboot.ts';
import { readSRecord } from './s-record.ts';
import { readUf2 } from './uf2.ts';

export interface ImageSettings {
  /** The address for a file that has no addresses of its own. */
  readonly address?: number | undefined;
  /** If set, only images for MCUboot that are signed with this key are accepted. */
  readonly mcubootKey?: KeyObject | undefined;
}

/** Reads an image of any known format, which its first bytes show. Throws a McuError with an `image-…` code. */
export function readImage(file: Uint8Array, settings: ImageSettings = {}): Image {
  if (file.byteLength > 4 * maxImageBytes) throw new McuError('image-too-large', `${file.byteLength} bytes of image`);
  const format = formatOf(file);
  if (settings.mcubootKey !== undefined && format !== 'mcuboot') {
    throw new McuError('image-signature', `this target takes only images signed for MCUboot, not ${format}`);
  }
  switch (format) {
    case 'elf':
      return readElf(file);
    case 'uf2':
      return readUf2(file);
    case 'mcuboot':
      return readMcuboot(file, settings.address ?? 0, settings.mcubootKey);
    case 'intel-hex':
      return readIntelHex(file);
    case 's-record':
      return readSRecord(file);
    case 'raw':
      return readRaw(file, settings.address);
  }
}

/** What the signature of an image for MCUboot covers. Call this only for files that `readImage` accepted. */
export function claimsOf(file: Uint8Array): ImageClaims {
  if (formatOf(file) !== 'mcuboot') return {};
  const { securityCounter, version } = mcubootHeader(file);
  return { securityCounter, imageVersion: version };
}

function formatOf(file: Uint8Array): ImageFormat {
  const start = Buffer.from(file.buffer, file.byteOffset, Math.min(16, file.byteLength));
  const word = start.byteLength < 4 ? 0 : start.readUInt32LE(0);
  if (word === 0x464c457f) return 'elf';
  if (word === 0x0a324655) return 'uf2';
  if (word === mcubootMagic) return 'mcuboot';
  const text = start.toString('latin1').trimStart();
  if (/^:[0-9A-Fa-f]{2}/.test(text)) return 'intel-hex';
  if (/^S[0-9][0-9A-Fa-f]{2}/.test(text)) return 's-record';
  return 'raw';
}

function readRaw(file: Uint8Array, address: number | undefined): Image {
  if (address === undefined) {
    throw new McuError('image-address-missing', 'a raw binary does not say where it goes', {
      advice: 'give the address in the configuration of the target, or use HEX, S-record, ELF or UF2',
    });
  }
  return makeImage('raw', [{ address, bytes: file }], espChipOf(file));
}

/** The chip that the image header of an ESP32 or later names (esptool documentation, "Firmware Image Format"). */
function espChipOf(file: Uint8Array): MadeFor | undefined {
  const [magic] = file;
  if (magic !== 0xe9 || file.byteLength < 24) return undefined;
  return { kind: 'esp-chip', chipId: new DataView(file.buffer, file.byteOffset).getUint16(12, true) };
}
