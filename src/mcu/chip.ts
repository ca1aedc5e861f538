import { hex, McuError } from './errors.ts';
import { anyRevision, endOf } from './images/image.ts';
import type { ChipRevisions, EspImageChip, Image, IntendedChip } from './images/image.ts';

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
  /** True if programs for a device, as avr-gcc names it, run on this chip. */
  readonly runsProgramsOf?: ((avrDevice: string) => boolean) | undefined;
  /** The UF2 families for this chip. */
  readonly uf2Families: readonly number[];
  /** The ESP images that it starts. Omitted if the chip does not identify itself. */
  readonly espImages?: EspImageChip | 'none' | undefined;
  /** The revision of an ESP: 100 times the major and the minor number. */
  readonly revision?: number | undefined;
  /** True if it starts only signed programs. */
  readonly securesBoot?: boolean | undefined;
  readonly flash: Region;
  /** The part of `flash` that an image may fill; the rest belongs to the bootloader. */
  readonly application: Region;
  /** Throws if the chip would start no program of the image. Omitted if the chip's start is unknown. */
  readonly checkStart?: ((image: Image) => void) | undefined;
}

export const elfMachines = { avr: 83, arm: 40, xtensa: 94, riscv: 243 } as const;

/** avr-gcc links the content of RAM, EEPROM and fuses to addresses from here on. */
const avrDataStart = 0x80_0000;

/** Refuses an image for another chip, outside of the chip's memory, or over its bootloader. */
export function checkFits(image: Image, chip: Chip): void {
  if (image.madeFor !== undefined && !isFor(image.madeFor, chip)) {
    throw new McuError(
      'image-wrong-chip',
      `the image is made for ${describe(image.madeFor)}, the board is ${chip.name}${versionOf(chip.revision)}`,
    );
  }
  for (const segment of image.segments) {
    const span = `${hex(segment.address)} to ${hex(endOf(segment))}`;
    if (segment.address < chip.flash.start || endOf(segment) > chip.flash.end) {
      const memory = `${hex(chip.flash.start)} to ${hex(chip.flash.end)}`;
      const isAvrData = chip.elfMachine === elfMachines.avr && segment.address >= avrDataStart;
      throw new McuError('image-outside-chip', `the image fills ${span}; the flash of ${chip.name} is ${memory}`, {
        advice: isAvrData ? 'leave out EEPROM and fuses: avr-objcopy -R .eeprom -R .fuse -R .lock' : undefined,
      });
    }
    if (segment.address < chip.application.start || endOf(segment) > chip.application.end) {
      const room = `${hex(chip.application.start)} to ${hex(chip.application.end)}`;
      throw new McuError(
        'image-overwrites-bootloader',
        `the image fills ${span} and would overwrite the bootloader; ${chip.name} has room from ${room}`,
      );
    }
  }
}

/** Throws if the image has something else where the chip starts. */
export function requireStart(isStarted: boolean, chipName: string): void {
  if (isStarted) return;
  throw new McuError('image-overwrites-bootloader', `${chipName} would not start what the image puts first`, {
    advice: 'check the address: applications do not go to the address of the bootloader',
  });
}

function isFor(madeFor: IntendedChip, chip: Chip): boolean {
  switch (madeFor.kind) {
    case 'elf-machine':
      if (chip.elfMachine === undefined) return true;
      if (madeFor.avrDevice !== undefined && chip.runsProgramsOf?.(madeFor.avrDevice) === false) return false;
      return madeFor.machine === chip.elfMachine && madeFor.avrArchitecture === chip.avrArchitecture;
    case 'uf2-family':
      return chip.uf2Families.includes(madeFor.family);
    case 'esp-chip':
      if (chip.espImages === undefined) return true;
      return madeFor.chip === chip.espImages && isWithin(chip.revision, madeFor.revisions);
  }
}

function describe(madeFor: IntendedChip): string {
  switch (madeFor.kind) {
    case 'elf-machine': {
      if (madeFor.avrDevice !== undefined) return `the AVR ${madeFor.avrDevice}`;
      const name = Object.entries(elfMachines).find(([, id]) => id === madeFor.machine)?.[0] ?? madeFor.machine;
      return `the ELF machine ${name}${madeFor.avrArchitecture ?? ''}`;
    }
    case 'uf2-family':
      return `the UF2 family ${hex(madeFor.family)}`;
    case 'esp-chip':
      if (madeFor.chip === 'esp8266') return 'the ESP8266';
      return `the ESP chip number ${madeFor.chip}${rangeOf(madeFor.revisions)}`;
  }
}

function isWithin(revision = 0, [first, last]: ChipRevisions = [0, anyRevision]): boolean {
  return revision >= first && revision <= last;
}

function rangeOf([first, last]: ChipRevisions = [0, anyRevision]): string {
  if (last !== anyRevision) return `${versionOf(first)} to${versionOf(last)}`;
  return first === 0 ? '' : `${versionOf(first)} or later`;
}

function versionOf(revision: number | undefined): string {
  return revision === undefined ? '' : ` v${Math.floor(revision / 100)}.${revision % 100}`;
}
