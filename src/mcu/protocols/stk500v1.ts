import { McuError } from '../errors.ts';
import { isBlank } from '../images/image.ts';
import { attempt, discard, equalUnits, exchange, persist, unitAt, untilSameTwice } from '../protocol.ts';
import type { Answer, Conversation, MemorySession, Protocol } from '../protocol.ts';
import { avrChip, pageWorkMs, parkedPage } from './avr-chips.ts';
import type { AvrChip, AvrSettings } from './avr-chips.ts';
import { startedByReset } from './reset-pulse.ts';

/** Source: Atmel AVR061, "STK500 Communication Protocol", sections 4 and 5. */
const command = {
  getSync: 0x30,
  getParameter: 0x41,
  leaveProgramming: 0x51,
  loadAddress: 0x55,
  programPage: 0x64,
  readPage: 0x74,
  readSignature: 0x75,
} as const;
const endOfCommand = 0x20;
const inSync = 0x14;
const ok = 0x10;
const softwareMajor = 0x81;
const flashMemory = 0x46;

/** A bootloader that was just reset may need this number of calls; it listens for about a second. */
const maxSyncs = 3;
/**
 * This number of ends of command is sent one by one to complete an interrupted command. If more bytes were lost, a
 * reset is faster.
 */
const maxProbes = 4;

/** The major version: Optiboot answers 4 or more; ATmegaBOOT, from which it descends, 1. */
const optibootMajor = 4;
/** AVR061, 5.12: addresses are 16-bit words. Higher ones would wrap around. */
const addressableBytes = 128 * 1024;

/** Optiboot and ATmegaBOOT. They have no checksums and no separate erase; address and page are sent in one burst. */
export function stk500v1(settings: AvrSettings = {}): Protocol {
  return startedByReset('stk500v1', () => connect(settings));
}

function* connect(settings: AvrSettings): Conversation<MemorySession> {
  yield* synchronise();
  const [major = 0, ...signature] = yield* untilSameTwice(identify);
  const isOptiboot = major >= optibootMajor;
  const bootloader = { kind: isOptiboot ? 'optiboot' : 'atmegaboot' } as const;
  const chipWith = (own: AvrSettings): AvrChip => avrChip(Uint8Array.from(signature), bootloader, own);
  const usual = chipWith(settings);
  if (usual.flash.end > addressableBytes) {
    throw new McuError('board-unsupported', `stk500v1 does not reach the whole flash memory of ${usual.name}`, {
      advice: 'use a bootloader with the protocol stk500v2',
    });
  }
  const isDoubtful = isOptiboot && settings.bootloaderBytes === undefined;
  const larger = isDoubtful ? usual.optibootSections : [];
  const chips = larger.map((bootloaderBytes) => chipWith({ bootloaderBytes }));
  return session(yield* largestPossible(chips, usual), isOptiboot);
}

/** Returns the major version and the signature. */
function* identify(): Conversation<number[]> {
  const [, major = 0] = yield* ask([command.getParameter, softwareMajor], 3);
  const answer = yield* ask([command.readSignature], 5);
  return [major, ...answer.subarray(1, 4)];
}

/**
 * Returns the chip with the largest boot section that it can have. Optiboot does not read the fuses, and boards are sold
 * with it whose fuses are still for ATmegaBOOT (boards.txt of arduino-core-avr: Nano, Mini). Such a chip starts at the
 * beginning of the larger section and arrives at Optiboot only because that is blank. If it is not, the section is
 * smaller, since the bootloader was reached.
 */
function* largestPossible(chips: readonly AvrChip[], usual: AvrChip): Conversation<AvrChip> {
  for (const chip of chips) {
    if (isBlank(yield* untilSameTwice(() => readPage(chip.application.end, chip.pageBytes)))) return chip;
  }
  return usual;
}

function session(chip: AvrChip, isOptiboot: boolean): MemorySession {
  return {
    kind: 'memory',
    chip,
    unitsOf: equalUnits(chip.pageBytes),
    blockBytes: chip.pageBytes,
    read: (address, length) => readPage(address, length),
    writes: 'anywhere',
    write: (address, bytes) => writePage(address, bytes),
    guardOf: unitAt(chip.application.start),
    parked: parkedPage,
    checksFrames: false,
    resume: () => (isOptiboot ? findEndOfCommand() : synchronise()),
    start,
  };
}

function* synchronise(): Conversation<void> {
  yield* persist(() => ask([command.getSync], 2), maxSyncs);
}

/**
 * Sends ends of command, one at a time, until one completes the command that the bootloader was waiting for. Any other
 * byte would make Optiboot start the application.
 */
function* findEndOfCommand(): Conversation<void> {
  yield* discard();
  for (let probes = 0; probes < maxProbes; probes += 1) {
    const { bytes } = yield* attempt(Uint8Array.of(endOfCommand), framed(2), probes === 0 ? 0 : pageWorkMs);
    if (bytes.byteLength === 2 && bytes[0] === inSync && bytes[1] === ok) return;
  }
  throw new McuError('board-timeout', 'the bootloader no longer finds the end of a command');
}

/** AVR061, 5.12 and 5.18. The address counts words; one read receives the answers to both commands. */
function* readPage(address: number, length: number): Conversation<Uint8Array> {
  const burst = [...loadAddress(address), command.readPage, length >> 8, length & 0xff, flashMemory, endOfCommand];
  const answer = yield* exchange(Uint8Array.from(burst), framed(2 + length + 2));
  check(answer.subarray(0, 2));
  check(answer.subarray(2));
  return answer.subarray(3, 3 + length);
}

/** AVR061, 5.12 and 5.15. */
function* writePage(address: number, bytes: Uint8Array): Conversation<void> {
  const length = bytes.byteLength;
  const head = [...loadAddress(address), command.programPage, length >> 8, length & 0xff, flashMemory];
  const answer = yield* exchange(Uint8Array.of(...head, ...bytes, endOfCommand), framed(4), pageWorkMs);
  check(answer.subarray(0, 2));
  check(answer.subarray(2));
}

/** Starts the application. The bootloader also does that on its own, so a lost answer does no harm. */
function* start(): Conversation<void> {
  yield* attempt(Uint8Array.of(command.leaveProgramming, endOfCommand), framed(2));
}

function* ask(bytes: readonly number[], answerBytes: number): Conversation<Uint8Array> {
  const answer = yield* exchange(Uint8Array.of(...bytes, endOfCommand), framed(answerBytes));
  check(answer);
  return answer;
}

function loadAddress(address: number): number[] {
  const word = address >> 1;
  return [command.loadAddress, word & 0xff, word >> 8, endOfCommand];
}

/** An answer of this length; it ends early when it is already wrong. */
function framed(bytes: number): Answer {
  return {
    atMost: bytes,
    length: (received) => {
      if (received.byteLength > 0 && received[0] !== inSync) return received.byteLength;
      return received.byteLength >= bytes ? bytes : 0;
    },
  };
}

function check(answer: Uint8Array): void {
  if (answer[0] === inSync && answer.at(-1) === ok) return;
  throw new McuError(
    'board-bad-response',
    `the bootloader answers ${Buffer.from(answer.subarray(0, 8)).toString('hex')}`,
  );
}
