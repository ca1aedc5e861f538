import { elfMachines } from '../chip.ts';
import type { Chip } from '../chip.ts';
import { hex, McuError } from '../errors.ts';
import { sliceOf } from '../images/image.ts';
import { AvrCode, smallFlashBytes } from './avr-code.ts';

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

/**
 * RAMEND of avr-libc, where its startup code begins the stack: of all models, and of other chips whose programs look like
 * theirs.
 */
const ramEnds: readonly (readonly [end: number, ...chips: string[]])[] = [
  [0x25f, 'ATtiny84', 'ATtiny85', 'ATmega8515', 'ATmega8535'],
  [0x2ff, 'ATmega48', 'ATmega48P', 'ATtiny88'],
  [0x45f, 'ATmega8', 'ATmega16'],
  [0x4ff, 'ATmega88', 'ATmega88P', 'ATmega168', 'ATmega168P', 'ATmega164P', 'ATmega32U2'],
  [0x5ff, 'ATmega16U4'],
  [0x85f, 'ATmega32'],
  [0x8ff, 'ATmega328', 'ATmega328P', 'ATmega328PB', 'ATmega324P'],
  [0xaff, 'ATmega32U4'],
  [0x10ff, 'ATmega64', 'ATmega128', 'ATmega644', 'ATmega644P'],
  [0x20ff, 'AT90USB1286'],
  [0x21ff, 'ATmega640', 'ATmega1280', 'ATmega2560'],
  [0x40ff, 'ATmega1284', 'ATmega1284P'],
  [0x41ff, 'ATmega128RFA1'],
  [0x81ff, 'ATmega256RFR2'],
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
  const bootStart = end - (checkedBytes(settings, model, bootloader) ?? bootBytesOf(model, bootloader));
  return {
    name,
    id,
    elfMachine: elfMachines.avr,
    avrArchitecture: architectureOf(model.flashKib),
    runsProgramsOf: (device) => runsProgramsOf(device, name),
    uf2Families: [],
    espImages: 'none',
    checkStart: (image) => {
      const code = new AvrCode(sliceOf(image, 0, bootStart), end);
      requireProgram(code, end);
      requireInstructions(code, name);
      requireStack(code, name);
    },
    flash: { start: 0, end },
    // a page is erased as a whole, so the bootloader's first page is not the application's
    application: { start: 0, end: bootStart - (bootStart % pageBytes) },
    pageBytes,
    optibootSections: model.optibootSections ?? [],
  };
}

/**
 * True if a program for a device runs on a chip, both without the A of a later die. A P adds modes of sleep, and in an
 * ATmega644P a second USART; an ATmega328PB has all that an ATmega328P has, and more.
 */
function runsProgramsOf(device: string, chipName: string): boolean {
  const [program = '', chip = ''] = [device, chipName].map((name) => name.toLowerCase().replace(/a$/, ''));
  if (program === chip) return true;
  return program !== 'atmega644p' && program.replace(/p$/, '') === chip.replace(/pb?$/, '');
}

/** Throws for an image without a program at address 0: with a bootloader, too, the chip's program starts there. */
function requireProgram(code: AvrCode, flashBytes: number): void {
  const isSmall = flashBytes <= smallFlashBytes;
  if (isSmall ? code.beginsFar() : code.beginsWithVectors(2)) {
    const size = isSmall ? 'more than' : 'at most';
    throw new McuError('image-wrong-chip', `the image has the vectors of an AVR with ${size} 8 KiB of flash memory`);
  }
  if (code.beginsWithVectors(isSmall ? 2 : 4) || code.isSoundFromStart()) return;
  throw new McuError(
    'image-unsupported',
    'the image has no program at address 0: it looks like data, such as the content of an EEPROM (.eep)',
    { advice: 'give the file with the program (.hex, .elf or .bin); the agent writes no EEPROM' },
  );
}

/** Throws for a program with an instruction that only larger chips have. */
function requireInstructions(code: AvrCode, name: string): void {
  const foreign = code.foreignInstruction();
  if (foreign === undefined) return;
  throw new McuError(
    'image-wrong-chip',
    `the program is made for a larger chip: it uses ${foreign}, which ${name} lacks`,
  );
}

/** Throws for startup code of another chip. A program may choose another stack, which is at no chip's end of RAM. */
function requireStack(code: AvrCode, name: string): void {
  const stack = code.initialStack();
  const made = ramEnds.find(([end]) => end === stack);
  if (made === undefined || made.includes(name)) return;
  const [end, ...chips] = made;
  const [itsEnd = 0] = ramEnds.find((row) => row.includes(name)) ?? [];
  throw new McuError(
    'image-wrong-chip',
    `the program is made for a chip such as ${chips.join(', ')}: it begins its stack at ${hex(end)}, and the RAM of ${name} ends at ${hex(itsEnd)}`,
  );
}

/** "AVR Options" of GCC: avr4 up to 8 KiB, avr5 up to 64, avr51 up to 128, avr6 above. */
function architectureOf(flashKib: number): number {
  if (flashKib <= 8) return 4;
  if (flashKib <= 64) return 5;
  return flashKib <= 128 ? 51 : 6;
}

/** Returns the configured size. Throws if it is smaller than any bootloader of this kind, or leaves no room for a program. */
function checkedBytes({ bootloaderBytes }: AvrSettings, model: Model, { kind }: AvrBootloader): number | undefined {
  const { name, flashKib, pageBytes, leastBootBytes } = model;
  const least = kind === 'optiboot' ? Math.max(optibootBytes, leastBootBytes) : leastBootBytes;
  const most = flashKib * 1024 - pageBytes;
  if (bootloaderBytes === undefined || (bootloaderBytes >= least && bootloaderBytes <= most)) return bootloaderBytes;
  throw new McuError('board-unsupported', `bootloader_bytes = ${bootloaderBytes} is not possible for ${name}`, {
    advice: `set bootloader_bytes of this target to a number from ${least} to ${most}, or remove it`,
  });
}

/** By the fuses if they are known, else by bootloader and chip; in doubt the largest boot section of the chip. */
function bootBytesOf(model: Model, { kind, highFuse = 0xff }: AvrBootloader): number {
  const { leastBootBytes, extended = false, atmegabootBytes } = model;
  const startsBootloader = (highFuse & 1) === 0;
  if (startsBootloader && !extended) return leastBootBytes << (3 - ((highFuse >> 1) & 3));
  if (kind === 'optiboot') return Math.max(optibootBytes, leastBootBytes);
  return (kind === 'atmegaboot' ? atmegabootBytes : undefined) ?? leastBootBytes << 3;
}
