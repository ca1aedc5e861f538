import { elfMachines } from '../../chip.ts';
import type { Chip, Region } from '../../chip.ts';
import { hex, McuError } from '../../errors.ts';
import { isBlank, sliceOf } from '../../images/image.ts';
import type { Image } from '../../images/image.ts';

export interface Stm32Settings {
  /** The size of the flash memory, if the chip does not report it. */
  readonly flashBytes?: number | undefined;
  /** The size of the RAM at 0x20000000, if the chip is a clone with more than any of its kind. */
  readonly ramBytes?: number | undefined;
}

export interface Stm32Chip extends Chip {
  /** Pages or sectors in the numbering of the erase command. */
  readonly pages: readonly Region[];
  readonly ram: readonly Region[];
  /** True if the chip may start from its second bank, according to an option byte. */
  readonly hasTwoBanks: boolean;
}

interface Model {
  readonly productId: number;
  readonly name: string;
  readonly uf2Family: number;
  readonly layout: Layout;
  /** The size of its RAM, and of the RAM that is tightly coupled to the core or has an alias there. */
  readonly ramKib: readonly [number, number?];
}

/** Pages of one size, perhaps in two banks, or the sectors of F2 and F4: four of 16 KiB, one of 64, the rest of 128. */
type Layout =
  | {
      readonly kind: 'pages';
      readonly pageKib: number;
      readonly flashKib: number;
      readonly banks: 1 | 2;
    }
  | { readonly kind: 'sectors'; readonly flashKib: number };

const flashStart = 0x08000000;
/** Reference manuals, "Memory map": where RAM and core-coupled RAM start. */
const [ramStart, coupledStart] = [0x2000_0000, 0x1000_0000];
/**
 * ARMv7-M Architecture Reference Manual, "Reset behavior": stack pointer, of which the lowest two bits are ignored, and
 * address of the first instruction.
 */
const vectorBytes = 8;
/** The vectors are aligned to this, behind the header that the chip's own bootloader may want. */
const vectorGrain = 0x80;
const headerBytes = 4096;
const kib = 1024;

const family = {
  f0: 0x647824b6,
  f1: 0x5ee21072,
  f4: 0x57755a57,
  f3: 0x6b846188,
  g0: 0x300f5633,
  g4: 0x4c71240a,
  l4: 0x00ff6919,
} as const;

/** uf2families.json of microsoft/uf2: families for single chips of the F4. */
const chipFamilies: ReadonlyMap<number, readonly number[]> = new Map([
  [0x413, [0x6d0922fa, 0x8fb060fe]],
  [0x431, [0x2dc309c5, 0x06d1097b]],
]);

/** Reference manuals, "Flash size register", and chip files of stlink: where the chip reports the KiB of its flash memory in 16 bits. */
const sizeRegisters: ReadonlyMap<number, number> = new Map([
  [family.f0, 0x1fff_f7cc],
  [family.f1, 0x1fff_f7e0],
  [family.f3, 0x1fff_f7cc],
  [family.f4, 0x1fff_7a22],
]);
const newerSizeRegister = 0x1fff_75e0;

function pages(pageKib: number, flashKib: number, banks: 1 | 2 = 1): Layout {
  return { kind: 'pages', pageKib, flashKib, banks };
}

function sectors(flashKib: number): Layout {
  return { kind: 'sectors', flashKib };
}

/**
 * Each row was compared with dev_table.c of stm32flash (ST AN2606, "Bootloader device-dependent parameters"), the chip files
 * of stlink, and the memory maps of probe-rs, which come from ST's packs. RAM and flash memory are as in the largest chip
 * with the product identifier; consecutive RAM counts as one, also behind an alias.
 */
const models: readonly Model[] = [
  { productId: 0x410, name: 'STM32F10x medium density', uf2Family: family.f1, layout: pages(1, 128), ramKib: [20] },
  { productId: 0x412, name: 'STM32F10x low density', uf2Family: family.f1, layout: pages(1, 32), ramKib: [10] },
  { productId: 0x414, name: 'STM32F10x high density', uf2Family: family.f1, layout: pages(2, 512), ramKib: [64] },
  { productId: 0x418, name: 'STM32F105/F107', uf2Family: family.f1, layout: pages(2, 256), ramKib: [64] },
  { productId: 0x440, name: 'STM32F05x', uf2Family: family.f0, layout: pages(1, 64), ramKib: [8] },
  { productId: 0x444, name: 'STM32F03x', uf2Family: family.f0, layout: pages(1, 32), ramKib: [4] },
  { productId: 0x448, name: 'STM32F07x', uf2Family: family.f0, layout: pages(2, 128), ramKib: [16] },
  { productId: 0x422, name: 'STM32F302/F303', uf2Family: family.f3, layout: pages(2, 256), ramKib: [40, 8] },
  { productId: 0x413, name: 'STM32F405/F407', uf2Family: family.f4, layout: sectors(1024), ramKib: [128, 64] },
  { productId: 0x423, name: 'STM32F401xB/C', uf2Family: family.f4, layout: sectors(256), ramKib: [64] },
  { productId: 0x433, name: 'STM32F401xD/E', uf2Family: family.f4, layout: sectors(512), ramKib: [96] },
  { productId: 0x431, name: 'STM32F411', uf2Family: family.f4, layout: sectors(512), ramKib: [128] },
  { productId: 0x460, name: 'STM32G07x/G08x', uf2Family: family.g0, layout: pages(2, 128), ramKib: [36] },
  { productId: 0x466, name: 'STM32G03x/G04x', uf2Family: family.g0, layout: pages(2, 64), ramKib: [8] },
  { productId: 0x468, name: 'STM32G431/G441', uf2Family: family.g4, layout: pages(2, 128), ramKib: [32, 10] },
  { productId: 0x435, name: 'STM32L43x/L44x', uf2Family: family.l4, layout: pages(2, 256), ramKib: [64, 16] },
  { productId: 0x415, name: 'STM32L47x/L48x', uf2Family: family.l4, layout: pages(2, 1024, 2), ramKib: [96, 32] },
];

function modelOf(productId: number): Model {
  const model = models.find((candidate) => candidate.productId === productId);
  if (model !== undefined) return model;
  throw new McuError('board-unknown', `no STM32 with the product id ${hex(productId)} is known`);
}

interface FlashSize {
  /** The address of the flash size register. */
  readonly register: number;
  /** True if the bootloader reads it only within a whole block, as it is known of F4 (stm32loader). */
  readonly isReadWhole: boolean;
  /** The size of the largest chip with this product id. */
  readonly mostBytes: number;
}

export function flashSizeOf(productId: number): FlashSize {
  const { uf2Family, layout } = modelOf(productId);
  const register = sizeRegisters.get(uf2Family) ?? newerSizeRegister;
  return { register, isReadWhole: uf2Family === family.f4, mostBytes: layout.flashKib * kib };
}

export function stm32Chip(productId: number, settings: Stm32Settings): Stm32Chip {
  const model = modelOf(productId);
  const { layout, ramKib } = model;
  const { ramBytes = ramKib[0] * kib } = settings;
  const flash = { start: flashStart, end: flashStart + usableBytes(layout, settings) };
  return {
    name: model.name,
    id: productId.toString(16),
    elfMachine: elfMachines.arm,
    uf2Families: [model.uf2Family, ...(chipFamilies.get(productId) ?? [])],
    espImages: 'none',
    flash,
    // the bootloader is in system memory, so the application may fill the whole flash
    application: flash,
    pages: layoutPages(layout, flash),
    ram: [
      { start: ramStart, end: ramStart + ramBytes },
      { start: coupledStart, end: coupledStart + (ramKib[1] ?? 0) * kib },
    ],
    hasTwoBanks: layout.kind === 'pages' && layout.banks === 2,
  };
}

/**
 * Throws if the chip would start no program. An image that touches the first page, which is erased as a whole, must have
 * vectors there; before any other image, the chip must hold a bootloader of its own. `held` is the chip's beginning.
 */
export function requireVectors(image: Image, chip: Stm32Chip, held: Uint8Array): void {
  const {
    name,
    pages: [first],
  } = chip;
  const end = first?.end ?? flashStart;
  const start = image.segments[0]?.address ?? flashStart;
  if (start < end) return requireStart(image, chip, end);
  const entry = entryOf(held.subarray(0, vectorBytes), chip);
  if (entry === undefined || entry < flashStart + vectorBytes || entry >= start) {
    const found = isBlank(held.subarray(0, vectorBytes)) ? 'is blank' : 'has no vectors of a bootloader';
    throw new McuError('image-unsupported', `nothing starts the image: ${name} ${found} at ${hex(flashStart)}`, {
      advice: 'write the bootloader that starts this image first, or one file that contains both',
    });
  }
  if (image.format !== 'raw' || hasVectorsIn({ start, end: start + headerBytes }, image, chip)) return;
  throw new McuError('image-unsupported', `the raw binary has no vectors in its first ${headerBytes} bytes`, {
    advice: 'give a program for this chip; to write other data there, put it into Intel HEX: objcopy -I binary -O ihex',
  });
}

function requireStart(image: Image, chip: Stm32Chip, end: number): void {
  if (hasVectors(image, chip, flashStart)) return;
  const [stack, reset] = wordsOf(sliceOf(image, flashStart, flashStart + vectorBytes));
  throw new McuError(
    'image-overwrites-bootloader',
    `${chip.name} would not start: the image has ${hex(stack)} and ${hex(reset)} at ${hex(flashStart)}, not a stack pointer in its RAM and the address of its code`,
    {
      advice: `check the address that the program is linked for, and give all of it, with its vectors; behind a bootloader of its own it begins at ${hex(end)} or later; if the board has a clone with more RAM, set ram_bytes`,
    },
  );
}

function wordsOf(vectors: Uint8Array): readonly [stack: number, reset: number] {
  const bytes = Buffer.from(vectors);
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)];
}

/**
 * Returns the address of the first instruction, or undefined if these are not a stack pointer in the chip's RAM, or at its
 * end, and an odd address (Thumb). The reference manuals, "Boot configuration", show the flash memory at address 0, too.
 */
function entryOf(vectors: Uint8Array, { ram }: Stm32Chip): number | undefined {
  const [stack, reset] = wordsOf(vectors);
  if (reset % 2 === 0 || !ram.some(({ start, end }) => start < stack && stack <= end)) return undefined;
  return (reset < flashStart ? reset + flashStart : reset) - 1;
}

/** Returns the page with the vectors of an image, without which nothing starts it: its first page if it has none. */
export function pageOfVectors(touched: readonly Region[], image: Image, chip: Stm32Chip): Region | undefined {
  return touched.find((page) => hasVectorsIn(page, image, chip)) ?? touched[0];
}

function hasVectorsIn({ start, end }: Region, image: Image, chip: Stm32Chip): boolean {
  for (let at = start; at < end; at += vectorGrain) if (hasVectors(image, chip, at)) return true;
  return false;
}

/** True if the image has vectors there, and code behind them where the chip starts. */
function hasVectors(image: Image, chip: Stm32Chip, at: number): boolean {
  const entry = entryOf(sliceOf(image, at, at + vectorBytes), chip);
  return entry !== undefined && entry >= at + vectorBytes && !isBlank(sliceOf(image, entry, entry + 2));
}

/**
 * Reference manual RM0351, "Flash module organization": in a smaller chip with two banks, page 256 begins the second half.
 * Its option DUALBANK makes it one bank, and AN3155 does not define the numbers then. So only the first half is used.
 */
function usableBytes(layout: Layout, { flashBytes }: Stm32Settings): number {
  const mostBytes = layout.flashKib * kib;
  const isHalved = layout.kind === 'pages' && layout.banks === 2 && flashBytes !== undefined && flashBytes < mostBytes;
  return isHalved ? flashBytes / 2 : (flashBytes ?? mostBytes);
}

function layoutPages(layout: Layout, { start, end }: Region): Region[] {
  const regions: Region[] = [];
  for (let at = start; at < end;) {
    const bytes = layout.kind === 'pages' ? layout.pageKib * kib : sectorBytes(at - start);
    regions.push({ start: at, end: at + bytes });
    at += bytes;
  }
  return regions;
}

function sectorBytes(offset: number): number {
  if (offset < 64 * kib) return 16 * kib;
  return offset < 128 * kib ? 64 * kib : 128 * kib;
}
