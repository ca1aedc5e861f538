import { checkFits, elfMachines, requireStart } from '../../chip.ts';
import type { Chip, Region } from '../../chip.ts';
import { hex, McuError } from '../../errors.ts';
import { isApplication, isEspImage, readEspImage } from '../../images/esp-image.ts';
import { endOf, sliceOf, touches } from '../../images/image.ts';
import type { EspImageChip, Image } from '../../images/image.ts';

/**
 * Registers of the controller to which the flash memory is connected. Source: Espressif, Technical Reference Manuals,
 * "SPI Controller".
 */
export interface SpiRegisters {
  readonly base: number;
  readonly user: number;
  readonly user1: number;
  readonly user2: number;
  readonly data: number;
  /** The register for the length of an answer in bits, minus one. Omitted: the bits of `user1` from 8 on. */
  readonly inputLength: number | undefined;
}

/** The differences between the ESP chips. */
export interface EspFamily {
  readonly name: string;
  readonly chipId: EspImageChip;
  /** The values of its magic register ("Chip Type Detection"). */
  readonly magics: readonly number[];
  readonly elfMachine: number;
  readonly uf2Family: number;
  /** The address where the ROM looks for the program to start ("Boot Mode Selection"; ESP-IDF, "Bootloader"). */
  readonly bootAddress: number;
  readonly spi: SpiRegisters;
  /** The ROM can inflate, compute digests, attach the flash and change its baud rate: every ROM but the ESP8266's. */
  readonly modern: boolean;
  /** Begin commands have a fifth word, for encryption. */
  readonly fifthWord: boolean;
  /** The fuses that show the security settings. Omitted if the loader reports them, or there are none. */
  readonly fuses: { readonly encryption: number; readonly secureBoot: number } | undefined;
  /** The address of the fuses that show the revision, block 0 of the ESP32 and block 1 of later chips. 0: there are none. */
  readonly revisionFuses: number;
}

/** A chip as its loader and its fuses show it. */
export interface EspIdentity {
  readonly family: EspFamily;
  /** Omitted for an ESP8266. */
  readonly revision: number | undefined;
  /** The chip starts only signed programs. */
  readonly securesBoot: boolean;
}

const newSpi: SpiRegisters = {
  base: 0x6000_2000,
  user: 0x18,
  user1: 0x1c,
  user2: 0x20,
  data: 0x58,
  inputLength: 0x28,
};

const oldSpi = { user: 0x1c, user1: 0x20, user2: 0x24 } as const;

const newer = { spi: newSpi, bootAddress: 0, modern: true, fifthWord: true, fuses: undefined } as const;

export const espFamilies: readonly EspFamily[] = [
  {
    name: 'ESP8266',
    chipId: 'esp8266',
    magics: [0xfff0_c101],
    elfMachine: elfMachines.xtensa,
    uf2Family: 0x7eab_61ed,
    bootAddress: 0,
    spi: { ...oldSpi, base: 0x6000_0200, data: 0x40, inputLength: undefined },
    modern: false,
    fifthWord: false,
    fuses: undefined,
    revisionFuses: 0,
  },
  {
    name: 'ESP32',
    chipId: 0,
    magics: [0x00f0_1d83],
    elfMachine: elfMachines.xtensa,
    uf2Family: 0x1c5f_21b0,
    bootAddress: 0x1000,
    spi: { ...oldSpi, base: 0x3ff4_2000, data: 0x80, inputLength: 0x2c },
    modern: true,
    fifthWord: false,
    fuses: { encryption: 0x3ff5_a000, secureBoot: 0x3ff5_a018 },
    revisionFuses: 0x3ff5_a000,
  },
  {
    ...newer,
    name: 'ESP32-C3',
    chipId: 5,
    magics: [0x6921_506f, 0x1b31_506f, 0x4881_606f, 0x4361_606f],
    elfMachine: elfMachines.riscv,
    uf2Family: 0xd42b_a06c,
    revisionFuses: 0x6000_8844,
  },
  {
    ...newer,
    name: 'ESP32-S3',
    chipId: 9,
    magics: [0x09],
    elfMachine: elfMachines.xtensa,
    uf2Family: 0xc47e_5767,
    revisionFuses: 0x6000_7044,
  },
];

/** The bootloader is below the partition table; Secure Boot protects everything there. */
export const tableAddress = 0x8000;

/** The loaders in ROM address flash memory with 24 bits. */
const addressableBytes = 16 * 1024 * 1024;

const leastStatedBytes = 2 ** 20;

/** The smallest piece that every SPI flash can erase. */
export const sectorBytes = 4096;

/**
 * The unit that is written and compared. The ROM of an ESP8266 erases the sectors up to the next multiple of 16 twice
 * over ("Erase Size Bug"; esptool, `get_erase_size`): it cannot erase a single sector, but a pair.
 */
export function espUnitBytes({ modern }: EspFamily): number {
  return modern ? sectorBytes : 2 * sectorBytes;
}

/** The third byte of a JEDEC identification is the size as a power of two; some makers differ (esptool's list). */
export function flashBytesOf(jedecId: number): number | undefined {
  const code = (jedecId >> 16) & 0xff;
  if (code >= 0x12 && code <= 0x1c) return 2 ** code;
  if (code >= 0x20 && code <= 0x22) return 2 ** (code - 6);
  return code >= 0x32 && code <= 0x3a ? 2 ** (code - 0x20) : undefined;
}

export function espChip(identity: EspIdentity, flashBytes: number): Chip {
  const { family, securesBoot, revision } = identity;
  const flash: Region = { start: 0, end: Math.min(flashBytes, addressableBytes) };
  const chip: Chip = {
    name: family.name,
    id: (family.magics[0] ?? 0).toString(16),
    elfMachine: family.elfMachine,
    uf2Families: [family.uf2Family],
    espImages: family.chipId,
    revision,
    securesBoot,
    flash,
    checkStart: (image) => checkBootloader(image, chip, family),
    application: securesBoot ? { ...flash, start: tableAddress } : flash,
  };
  return chip;
}

/** Returns the image's bytes from `start` to `end`, or to its own end. */
export function contentOf(image: Image, start: number, end = Infinity): Uint8Array {
  const lastEnd = Math.max(...image.segments.map(endOf));
  return sliceOf(image, start, Math.max(start, Math.min(end, lastEnd)));
}

/**
 * Throws McuError if the image replaces a part of the program that the ROM starts, and is not a whole ESP image there, or
 * is an application, as a UF2 for TinyUF2.
 */
function checkBootloader(image: Image, chip: Chip, family: EspFamily): void {
  const start = family.bootAddress;
  const unitBytes = espUnitBytes(family);
  // programs of an ESP8266 have parts behind the first unit
  const end = family.modern ? tableAddress : start + unitBytes;
  if (!touches(image, start, end, unitBytes)) return;
  const bytes = contentOf(image, start);
  requireStart(isEspImage(bytes), family.name);
  checkFits(readEspImage(bytes, start), chip);
  requireStart(!isApplication(bytes), family.name);
  if (family.modern) requireFlashSize(statedFlashBytes(bytes), chip);
}

/** "Firmware Image Format": the size of the flash memory in the header of a bootloader. */
export function statedFlashBytes(bootloader: Uint8Array): number {
  return leastStatedBytes * 2 ** ((bootloader[3] ?? 0) >> 4);
}

/** Throws for a bootloader for more flash memory: applications of ESP-IDF then restart again and again. */
function requireFlashSize(stated: number, { name, flash }: Chip): void {
  if (stated <= Math.max(flash.end, leastStatedBytes) || flash.end >= addressableBytes) return;
  const message = `the bootloader is built for ${hex(stated)} bytes of flash memory, and ${name} has ${hex(flash.end)}`;
  throw new McuError('image-unsupported', message, {
    advice: 'build or merge it for this size (esptool: --flash_size)',
  });
}
