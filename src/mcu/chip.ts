import { hex, McuError } from './errors.ts';
import { endOf, sliceOf } from './images/image.ts';
import type { EspImageChip, Image, IntendedChip } from './images/image.ts';
import { mcubootMagic } from './images/mcuboot.ts';

/** Addresses from `start` up to, but not including, `end`. */
export interface Region {
  readonly start: number;
  readonly end: number;
}

/** A chip as its bootloader identified it, and the limits for its images. */
export interface Chip {
  readonly name: string;
  /** The bootloader's own statement, in hex: signature, product or chip identifier. */
  readonly id: string;
  /** The e_machine of ELF files for this chip. */
  readonly elfMachine: number | undefined;
  /** The architecture of AVR programs for this chip ("AVR Options" of GCC): it decides where interrupts jump. */
  readonly avrArchitecture?: number | undefined;
  /** The UF2 families for this chip. */
  readonly uf2Families: readonly number[];
  /** The ESP images that it starts. Omitted if the chip does not identify itself. */
  readonly espImages?: EspImageChip | 'none' | undefined;
  readonly flash: Region;
  /** The part of `flash` that an image may fill; the rest belongs to the bootloader. */
  readonly application: Region;
  /** True if the chip would start what the image has at the address where it starts. Omitted if that may be anything. */
  readonly startsWith?: ((image: Image) => boolean) | undefined;
}

export const elfMachines = { avr: 83, arm: 40, xtensa: 94, riscv: 243 } as const;

/** Refuses an image for another chip, outside of the chip's memory, or over its bootloader. */
export function checkFits(image: Image, chip: Chip): void {
  if (image.madeFor !== undefined && !isFor(image.madeFor, chip)) {
    throw new McuError(
      'image-wrong-chip',
      `the image is made for ${describe(image.madeFor)}, the board is ${chip.name}`,
    );
  }
  for (const segment of image.segments) {
    const span = `${hex(segment.address)} to ${hex(endOf(segment))}`;
    if (segment.address < chip.flash.start || endOf(segment) > chip.flash.end) {
      const memory = `${hex(chip.flash.start)} to ${hex(chip.flash.end)}`;
      throw new McuError('image-outside-chip', `the image fills ${span}; the flash of ${chip.name} is ${memory}`);
    }
    if (segment.address < chip.application.start || endOf(segment) > chip.application.end) {
      const room = `${hex(chip.application.start)} to ${hex(chip.application.end)}`;
      throw new McuError(
        'image-overwrites-bootloader',
        `the image fills ${span} and would overwrite the bootloader; ${chip.name} has room from ${room}`,
      );
    }
  }
  if (chip.startsWith?.(image) === false) {
    throw new McuError('image-overwrites-bootloader', `${chip.name} would not start what the image puts first`, {
      advice: 'check the address: applications do not go to the address of the bootloader',
    });
  }
}

/**
 * For chips that start at this address. False for an image signed for MCUboot there, whose header is not a program: it
 * belongs into a slot behind MCUboot.
 */
export function startsAt(address: number): (image: Image) => boolean {
  return (image) => Buffer.from(sliceOf(image, address, address + 4)).readUInt32LE() !== mcubootMagic;
}

function isFor(madeFor: IntendedChip, chip: Chip): boolean {
  switch (madeFor.kind) {
    case 'elf-machine':
      if (chip.elfMachine === undefined) return true;
      return madeFor.machine === chip.elfMachine && madeFor.avrArchitecture === chip.avrArchitecture;
    case 'uf2-family':
      return chip.uf2Families.includes(madeFor.family);
    case 'esp-chip':
      return chip.espImages === undefined || madeFor.chip === chip.espImages;
  }
}

function describe(madeFor: IntendedChip): string {
  switch (madeFor.kind) {
    case 'elf-machine': {
      const name = Object.entries(elfMachines).find(([, id]) => id === madeFor.machine)?.[0] ?? madeFor.machine;
      return `the ELF machine ${name}${madeFor.avrArchitecture ?? ''}`;
    }
    case 'uf2-family':
      return `the UF2 family ${hex(madeFor.family)}`;
    case 'esp-chip':
      return madeFor.chip === 'esp8266' ? 'the ESP8266' : `the ESP chip number ${madeFor.chip}`;
  }
}
