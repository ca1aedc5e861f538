import type { Region } from '../../chip.ts';
import { hex, isBoardError, McuError } from '../../errors.ts';
import { attempt, discard, exactly, exchange, listen, noReply, persist, say, untilSameTwice } from '../../protocol.ts';
import type { ChipDigest, Conversation, MemorySession, ModemStep, Protocol } from '../../protocol.ts';
import { probeChecksum } from './stm32-checksum.ts';
import { flashSizeOf, pageOfVectors, requireVectors, stm32Chip } from './stm32-chips.ts';
import type { Stm32Chip, Stm32Settings } from './stm32-chips.ts';
import { ack, acknowledged, checked, commandBytes, counted, nack, requireAck, wordBytes } from './stm32-frames.ts';
import { blockBytes, Stm32Memory } from './stm32-memory.ts';

/** Source: ST AN3155, "USART protocol used in the STM32 bootloader", section 3. */
const command = {
  get: 0x00,
  getId: 0x02,
  go: 0x21,
  erase: 0x43,
  extendedErase: 0x44,
  getChecksum: 0xa1,
} as const;
/** AN3155, 2: sent with even parity, it lets the bootloader measure the baud rate. */
const autobaud = 0x7f;

const digestedBytes = 16 * 1024;
/**
 * Data sheets of F2 and F4: at the lowest voltage, a sector of 128 KiB takes at most 4 s. Pages of clones take longer than
 * the data sheets of ST state, so no page has a shorter deadline (stm32flash waits for 5 s).
 */
const eraseMs = 6_500;
const maxSyncs = 3;
const maxRefusals = 3;
/** Longer than the longest command. It is neither a mass erase nor a block whose checksum would be right. */
const filler = new Uint8Array(260).fill(0x5a);

/** By convention DTR drives NRST, and RTS the inverted BOOT0; an asserted line is low at the pin. */
const bootMs = 50;
const enter: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>> = {
  dtr: [
    { dtr: true, rts: true, thenMs: 20 },
    { dtr: false, rts: true, thenMs: bootMs },
  ],
  'dtr-rts': [
    { dtr: true, rts: false, thenMs: 20 },
    { dtr: false, rts: false, thenMs: bootMs },
  ],
};
const leave: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>> = {
  dtr: [],
  'dtr-rts': [
    { dtr: true, rts: true, thenMs: 20 },
    { dtr: false, rts: true, thenMs: 0 },
  ],
};

/** The bootloader in the system memory of every STM32, over its UART, with even parity. */
export function stm32(settings: Stm32Settings = {}): Protocol {
  return { name: 'stm32', parity: 'even', enter, leave, requireLeft, connect: () => connect(settings) };
}

function* connect(settings: Stm32Settings): Conversation<MemorySession> {
  yield* synchronise();
  const commands = yield* untilSameTwice(get);
  const erase = [command.extendedErase, command.erase].find((code) => commands.includes(code));
  if (erase === undefined) throw new McuError('board-unsupported', 'this bootloader offers no erase command');
  const productId = yield* untilSameTwice(getId);
  const memory = new Stm32Memory();
  const flashBytes = settings.flashBytes ?? (yield* reportedFlashBytes(productId, memory));
  const chip = stm32Chip(productId, { flashBytes });
  yield* refuseProtected(chip, memory);
  if (chip.hasTwoBanks) yield* refuseSecondBank(chip, memory);
  if (erase === command.erase) requireShortNumbers(chip);
  const block = yield* untilSameTwice(() => memory.read(chip.flash.start, blockBytes));
  yield* tried(memory.tryBursts(chip.flash.start, block));
  const digest = commands.includes(command.getChecksum)
    ? yield* tried(probeChecksum(chip.flash.start, block))
    : undefined;
  return session({ ...chip, checkStart: (image) => requireVectors(image, chip, block) }, memory, erase, digest);
}

/** Returns the result of a conversation, or undefined if the bootloader answered otherwise, and is in step again. */
function* tried<T>(conversation: Conversation<T>): Conversation<T | undefined> {
  try {
    return yield* conversation;
  } catch (error) {
    if (!isBoardError(error)) throw error;
    yield* resume();
    return undefined;
  }
}

function session(chip: Stm32Chip, memory: Stm32Memory, erase: number, digest: ChipDigest | undefined): MemorySession {
  return {
    kind: 'memory',
    chip,
    unitsOf: ({ start, end }) => chip.pages.filter((page) => page.start < end && page.end > start),
    blockBytes,
    // a checksum takes as many turns as reading a block or two, so it pays for many pages
    runBytes: digest === undefined ? undefined : digestedBytes,
    read: (address, length) => memory.read(address, length),
    digest,
    erase: (unit) => erasePage(chip, memory, erase, unit),
    writes: 'erased',
    write: (address, bytes) => memory.write(address, bytes),
    // if it is erased, the first word is not a stack pointer in RAM: the chip faults, or stays in its bootloader
    parked: 'erased',
    guardOf: (units, image) => pageOfVectors(units, image, chip),
    // commands carry a checksum, but what is read does not
    checksFrames: false,
    resume,
    start: () => start(chip),
  };
}

/**
 * AN3155, 2. A bootloader that is already synchronized takes the byte for half a command, which the next one completes.
 */
function* synchronise(): Conversation<void> {
  for (let tries = 1; ; tries += 1) {
    yield* discard();
    const { bytes } = yield* attempt(Uint8Array.of(autobaud), exactly(1));
    if (bytes[0] === ack || bytes[0] === nack) return;
    if (tries >= maxSyncs) {
      throw new McuError('board-timeout', 'the system bootloader is not responding', {
        advice: 'check that BOOT0 is high at reset, the UART is one the bootloader listens on, and power and cable',
      });
    }
  }
}

/** AN3155, 3.1: version and commands. */
function* get(): Conversation<Uint8Array> {
  return (yield* listed(command.get)).subarray(1);
}

/** AN3155, 3.3. */
function* getId(): Conversation<number> {
  return Buffer.from(yield* listed(command.getId)).readUInt16BE(0);
}

/** Sends a command that is answered with a list between two acknowledgements. */
function* listed(code: number): Conversation<Uint8Array> {
  const answer = yield* exchange(commandBytes(code), counted);
  requireAck(answer[0]);
  requireAck(answer.at(-1));
  return answer.subarray(2, -1);
}

/** Returns the size that the chip reports, or undefined if its register cannot be read, or has no possible size. */
function* reportedFlashBytes(productId: number, memory: Stm32Memory): Conversation<number | undefined> {
  const { register, isReadWhole, mostBytes } = flashSizeOf(productId);
  const offset = isReadWhole ? register % blockBytes : 0;
  try {
    const held = yield* untilSameTwice(() => memory.read(register - offset, isReadWhole ? blockBytes : 2));
    const bytes = Buffer.from(held).readUInt16LE(offset) * 1024;
    return bytes > 0 && bytes <= mostBytes ? bytes : undefined;
  } catch (error) {
    if (!isBoardError(error) || error.code !== 'board-refused') throw error;
    yield* resume();
    return undefined;
  }
}

/** AN3155, 3.4: with read protection, every command that touches memory is refused. */
function* refuseProtected(chip: Stm32Chip, memory: Stm32Memory): Conversation<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      yield* memory.read(chip.flash.start, 4);
      return;
    } catch (error) {
      if (!isBoardError(error) || error.code !== 'board-refused') throw error;
      if (tries < maxRefusals) {
        // a bootloader that is out of step refuses every command
        yield* resume();
        continue;
      }
      throw new McuError('board-protected', `${chip.name} is read-protected: no flash can be read or written`, {
        advice: 'lift the protection with a debug probe or `stm32flash -k`; that erases the whole chip',
        cause: error,
      });
    }
  }
}

/** RM0351, "Flash option bytes": with BFB2, the second bank starts if it holds a program, whatever the first one holds. */
const optionBytes = 0x1fff_7800;
const bootFromSecondBank = 1 << 20;

function* refuseSecondBank(chip: Stm32Chip, memory: Stm32Memory): Conversation<void> {
  const options = Buffer.from(yield* untilSameTwice(() => memory.read(optionBytes, 4))).readUInt32LE();
  if ((options & bootFromSecondBank) === 0) return;
  throw new McuError('board-unsupported', `${chip.name} starts its second bank (option BFB2); images go to the first`, {
    advice: 'clear BFB2 with a debug probe, or update this board by its own firmware',
  });
}

/** AN3155, 3.7: a number of a page is one byte. A higher one would erase another page. */
function requireShortNumbers({ name, pages }: Stm32Chip): void {
  const end = pages[256]?.start;
  if (end === undefined) return;
  const most = end - (pages[0]?.start ?? 0);
  throw new McuError('board-unsupported', `this bootloader erases only the first 256 pages of ${name}`, {
    advice: `set flash_bytes of this target to at most ${most}`,
  });
}

/** AN3155, 3.7 and 3.8: erases one page, with the erase command that Get listed. */
function* erasePage(chip: Stm32Chip, memory: Stm32Memory, code: number, unit: Region): Conversation<void> {
  const page = chip.pages.findIndex(({ start }) => start === unit.start);
  if (page < 0) throw new McuError('board-unsupported', `no page begins at ${hex(unit.start)}`);
  const list = code === command.erase ? [0, page] : [0, 0, page >> 8, page & 0xff];
  yield* memory.say([commandBytes(code), checked(list)], exactly(1), eraseMs);
}

/** AN3155, 3.5. */
function* start(chip: Stm32Chip): Conversation<void> {
  try {
    yield* acknowledged(commandBytes(command.go));
    yield* acknowledged(checked(wordBytes(chip.flash.start)));
  } catch (error) {
    if (!isBoardError(error) || error.code !== 'board-refused') throw error;
    throw notLeft('refuses to start the application', error);
  }
}

/** The bootloader sends nothing on its own, and answers exactly the byte that synchronizes it. */
function* requireLeft(): Conversation<void> {
  const before = yield* listen(noReply, bootMs);
  if (before.bytes.byteLength > 0) return;
  const { bytes } = yield* attempt(Uint8Array.of(autobaud), noReply);
  if (bytes.byteLength !== 1 || bytes[0] !== ack) return;
  const answer = yield* attempt(commandBytes(command.get), counted);
  if (answer.whole && answer.bytes.at(-1) === ack) throw notLeft('started again instead of the application');
}

function notLeft(what: string, cause?: unknown): McuError {
  const message = `the bootloader ${what}, so the board stays in its bootloader; its flash memory is intact`;
  const advice =
    'set BOOT0 low and reset the board; if RTS drives BOOT0, set reset = "dtr-rts" in its target, and check that line';
  return new McuError('board-refused', message, { advice, cause });
}

/**
 * Gets back in step: completes any cut command, and then sends Get until it is understood, with a byte more or less.
 */
function* resume(): Conversation<void> {
  yield* say(filler);
  let tries = 0;
  yield* persist(function* ask() {
    tries += 1;
    if (tries > 1) yield* attempt(Uint8Array.of(0xff), exactly(1));
    yield* get();
  }, maxSyncs);
}
