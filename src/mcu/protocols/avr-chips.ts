import { elfMachines } from '../chip.ts';
import type { Chip } from '../chip.ts';
import { McuError } from '../errors.ts';
import type { Image, Segment } from '../images/image.ts';

export interface AvrSettings {
  /** The size of the boot section at the end of the flash memory, if it is not the usual one of this bootloader. */
  readonly bootloaderBytes?: number | undefined;
}

export interface AvrChip extends Chip {
  readonly pageBytes: number;
  /** Larger boot sections that the fuses of boards with Optiboot may select, largest first. */
  readonly optibootSections: readonly number[];
}

/** The bootloader that answers, and the high fuse byte if it can read that. */
export interface AvrBootloader {
  readonly kind: 'optiboot' | 'atmegaboot' | 'wiring';
  readonly highFuse?: number | undefined;
}

interface Model {
  readonly signature: string;
  readonly name: string;
  readonly flashKib: number;
  readonly pageBytes: number;
  /** The smallest boot section. The fuse bits BOOTSZ double it up to three times. */
  readonly leastBootBytes: number;
  /** BOOTSZ is in the extended fuse byte, not in the high one. */
  readonly extended?: true;
  /** The boot section of ATmegaBOOT, where a source is known. */
  readonly atmegabootBytes?: number;
  readonly optibootSections?: readonly number[];
}

const arduino328 = {
  flashKib: 32,
  pageBytes: 128,
  leastBootBytes: 512,
  atmegabootBytes: 2048,
  optibootSections: [4096, 2048],
};

/**
 * Sources: the data sheets, "Signature Bytes", "Page Size" and "Boot Size Configuration". For ATmegaBOOT, and larger
 * sections with Optiboot: boards.txt of arduino-core-avr 1.8.7, fuses and `maximum_size`.
 */
const models: readonly Model[] = [
  { signature: '1e9307', name: 'ATmega8', flashKib: 8, pageBytes: 64, leastBootBytes: 256, atmegabootBytes: 1024 },
  { signature: '1e930a', name: 'ATmega88', flashKib: 8, pageBytes: 64, leastBootBytes: 256, extended: true },
  { signature: '1e930f', name: 'ATmega88P', flashKib: 8, pageBytes: 64, leastBootBytes: 256, extended: true },
  { signature: '1e9406', name: 'ATmega168', flashKib: 16, pageBytes: 128, leastBootBytes: 256, extended: true },
  { signature: '1e940b', name: 'ATmega168P', flashKib: 16, pageBytes: 128, leastBootBytes: 256, extended: true },
  { signature: '1e9514', name: 'ATmega328', ...arduino328 },
  { signature: '1e950f', name: 'ATmega328P', ...arduino328 },
  { signature: '1e9516', name: 'ATmega328PB', flashKib: 32, pageBytes: 128, leastBootBytes: 512 },
  { signature: '1e9502', name: 'ATmega32', flashKib: 32, pageBytes: 128, leastBootBytes: 512 },
  { signature: '1e960a', name: 'ATmega644P', flashKib: 64, pageBytes: 256, leastBootBytes: 1024 },
  { signature: '1e9609', name: 'ATmega644', flashKib: 64, pageBytes: 256, leastBootBytes: 1024 },
  {
    signature: '1e9703',
    name: 'ATmega1280',
    flashKib: 128,
    pageBytes: 256,
    leastBootBytes: 1024,
    atmegabootBytes: 4096,
  },
  { signature: '1e9706', name: 'ATmega1284', flashKib: 128, pageBytes: 256, leastBootBytes: 1024 },
  { signature: '1e9705', name: 'ATmega1284P', flashKib: 128, pageBytes: 256, leastBootBytes: 1024 },
  { signature: '1e9801', name: 'ATmega2560', flashKib: 256, pageBytes: 256, leastBootBytes: 1024 },
];

/** Optiboot's Makefiles place it 512 bytes before the end, or at the smallest boot section of the chip. */
const optibootBytes = 512;

/** A page is erased and then written; the data sheets state at most 4.5 ms for each. This is generously twice that. */
export const pageWorkMs = 18;

/** `rjmp .`: a chip that starts here waits for its bootloader instead of running half a program. */
export const parkedPage = Uint8Array.of(0xff, 0xcf);

export function avrChip(signature: Uint8Array, bootloader: AvrBootloader, settings: AvrSettings): AvrChip {
  const id = Buffer.from(signature).toString('hex');
  const model = models.find((candidate) => candidate.signature === id);
  if (model === undefined) throw new McuError('board-unknown', `no AVR with the signature ${id} is known`);
  const { name, pageBytes } = model;
  const end = model.flashKib * 1024;
  const bootStart = end - (settings.bootloaderBytes ?? bootBytesOf(model, bootloader));
  return {
    name,
    id,
    elfMachine: elfMachines.avr,
    avrArchitecture: architectureOf(model.flashKib),
    uf2Families: [],
    espImages: 'none',
    checkStart: (image) => requireProgram(image, end),
    flash: { start: 0, end },
    // a page is erased as a whole, so the bootloader's first page is not the application's
    application: { start: 0, end: bootStart - (bootStart % pageBytes) },
    pageBytes,
    optibootSections: model.optibootSections ?? [],
  };
}

/** Throws for an image without a program at address 0: with a bootloader, too, the chip's program starts there. */
function requireProgram(image: Image, flashBytes: number): void {
  const target = firstJump(image.segments[0], flashBytes);
  const isInside = ({ address, bytes }: Segment): boolean => target >= address && target < address + bytes.byteLength;
  if (image.segments.some(isInside)) return;
  throw new McuError(
    'image-unsupported',
    'the image has no program at address 0: it looks like data, such as the content of an EEPROM (.eep)',
    { advice: 'give the file with the program (.hex, .elf or .bin); the agent writes no EEPROM' },
  );
}

/**
 * Returns the target of the first jump from address 0 on ("AVR Instruction Set Manual": RJMP, JMP), or -1. A program
 * begins with a jump or arrives at one; data, even if it has the bits of one, seldom jumps into itself.
 */
function firstJump(start: Segment | undefined, flashBytes: number): number {
  if (start?.address !== 0) return -1;
  const view = new DataView(start.bytes.buffer, start.bytes.byteOffset, start.bytes.byteLength);
  for (let at = 0; at + 2 <= view.byteLength; at += 2) {
    const word = view.getUint16(at, true);
    if (word >> 12 === 0xc) return (at + 2 + ((word << 20) >> 19) + flashBytes) % flashBytes;
    const isJump = (word & 0xfe0e) === 0x940c;
    const hasTwoWords = isJump || (word & 0xfe0e) === 0x940e || (word & 0xfc0f) === 0x9000;
    if (word === 0xffff || (hasTwoWords && at + 4 > view.byteLength)) return -1;
    if (isJump) return 2 * ((((word >> 3) & 0x3e) | (word & 1)) * 0x1_0000 + view.getUint16(at + 2, true));
    if (hasTwoWords) at += 2;
  }
  return -1;
}

/** "AVR Options" of GCC: avr4 up to 8 KiB, avr5 up to 64, avr51 up to 128, avr6 above. */
function architectureOf(flashKib: number): number {
  if (flashKib <= 8) return 4;
  if (flashKib <= 64) return 5;
  return flashKib <= 128 ? 51 : 6;
}

/** By the fuses if they are known, else by bootloader and chip; in doubt the largest boot section of the chip. */
function bootBytesOf(model: Model, { kind, highFuse = 0xff }: AvrBootloader): number {
  const { leastBootBytes, extended = false, atmegabootBytes } = model;
  const startsBootloader = (highFuse & 1) === 0;
  if (startsBootloader && !extended) return leastBootBytes << (3 - ((highFuse >> 1) & 3));
  if (kind === 'optiboot') return Math.max(optibootBytes, leastBootBytes);
  return (kind === 'atmegaboot' ? atmegabootBytes : undefined) ?? leastBootBytes << 3;
}
