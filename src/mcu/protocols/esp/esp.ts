import { createHash } from 'node:crypto';

import type { Chip } from '../../chip.ts';
import { hex, isBoardError, McuError } from '../../errors.ts';
import { discard, equalUnits, persist, say, unitAt, untilSameTwice, withoutIo } from '../../protocol.ts';
import type { BootPlan, ChipDigest, Conversation, MemorySession, ModemStep, Protocol } from '../../protocol.ts';
import { bootedSlot, bootPlanFor } from './esp-boot-state.ts';
import type { Wanted } from './esp-boot-state.ts';
import { espChip, espUnitBytes, flashBytesOf, sectorBytes } from './esp-chips.ts';
import type { EspFamily, EspIdentity } from './esp-chips.ts';
import { encodeCommand, frameBreak, words } from './esp-frames.ts';
import { identify, magicAddress } from './esp-identify.ts';
import { demand, espCommand, jedecId, readRegister } from './esp-registers.ts';
import { EspWriter, packetBytes } from './esp-writer.ts';

export interface EspSettings {
  /** The baud rate for flashing. The loader is found at a low rate, and then switched to this one. */
  readonly baud?: number | undefined;
  /** The size of the flash memory. If omitted, it is read from the chip. */
  readonly flashBytes?: number | undefined;
  /** True if modem lines can reset the chip, which then starts its application; without them, the loader does. */
  readonly hasResetLine?: boolean | undefined;
}

/**
 * The rate that every ROM detects; the ESP8266's cannot change it. Source: Espressif, "Serial Protocol",
 * "Initialization".
 */
const romBaud = 115_200;
const maxSyncs = 5;
const maxProbes = 3;
/** A rate at which the chip was not heard so many times is not tried again. */
const maxBaudFailures = 2;
/** SYNC is answered eight times. */
const repeatedAnswersMs = 50;
/** The time that esptool allows for 1 MB. */
const md5WorkMsPerByte = 8_000 / 1_000_000;
const md5TextBytes = 32;
/** Neighbouring sectors that differ are erased as one block, which takes as long as a few sectors. */
const runBytes = 64 * 1024;

/**
 * esptool's "tight" reset. DTR drives GPIO0 and RTS the enable pin through two transistors, so that both lines asserted
 * do nothing; they change simultaneously, so that nothing boots in between. A chip on its own USB port
 * (USB-Serial-JTAG) needs another sequence; there `reset` must be a command.
 */
const tight: readonly ModemStep[] = [
  { dtr: false, rts: false, thenMs: 0 },
  { dtr: true, rts: true, thenMs: 0 },
  { dtr: false, rts: true, thenMs: 100 },
  { dtr: true, rts: false, thenMs: 50 },
  { dtr: false, rts: false, thenMs: 0 },
];
const hard: readonly ModemStep[] = [
  { dtr: false, rts: true, thenMs: 100 },
  { dtr: false, rts: false, thenMs: 0 },
];

/** The loader in the ROM of ESP8266, ESP32, ESP32-C3 and ESP32-S3. It cannot read flash memory back. */
export function esp(settings: EspSettings = {}): Protocol {
  const loader = new EspLoader(settings);
  return {
    name: 'esp',
    parity: 'none',
    enter: { dtr: tight, 'dtr-rts': tight },
    leave: { dtr: hard, 'dtr-rts': hard },
    connect: () => loader.connect(),
  };
}

class EspLoader {
  readonly #settings: EspSettings;
  #baudFailures = 0;
  #selection: number | undefined;

  constructor(settings: EspSettings) {
    this.#settings = settings;
  }

  *connect(): Conversation<MemorySession> {
    yield { kind: 'baud', baud: Math.min(romBaud, this.#settings.baud ?? romBaud) };
    yield* synchronise();
    const identity = yield* identify();
    const { family } = identity;
    yield* attach(family);
    const flashBytes = this.#settings.flashBytes ?? (yield* flashSize(family));
    if (family.modern) {
      yield* setParameters(flashBytes);
      yield* this.#raiseBaud();
    }
    return this.#session(identity, flashBytes);
  }

  #session(identity: EspIdentity, flashBytes: number): MemorySession {
    const { family } = identity;
    const chip = espChip(identity, flashBytes);
    const writer = new EspWriter(family);
    const unitBytes = espUnitBytes(family);
    return {
      kind: 'memory',
      chip,
      unitsOf: equalUnits(unitBytes),
      blockBytes: family.modern ? runBytes : unitBytes,
      runBytes: family.modern ? runBytes : undefined,
      digest: family.modern ? md5 : undefined,
      writes: 'anywhere',
      write: (address, bytes) => writer.write(address, bytes),
      boots: family.modern ? () => bootedSlot(md5) : undefined,
      planBoot: family.modern ? (image, toStay) => this.#planBoot({ image, toStay }, family, chip) : undefined,
      // the head of the bootloader, what selects the program, or else the first unit: nothing starts without it
      guardOf: (units) => unitAt(family.bootAddress)(units) ?? unitAt(this.#selection ?? -1)(units) ?? units[0],
      parked: 'erased',
      // data carries a checksum, but its address does not
      checksFrames: false,
      resume,
      start: () => (this.#settings.hasResetLine === false ? restart(family) : withoutIo(undefined)),
    };
  }

  *#planBoot(wanted: Wanted, family: EspFamily, chip: Chip): Conversation<BootPlan> {
    const plan = yield* bootPlanFor(wanted, family, chip, md5);
    this.#selection = plan.guard;
    return plan;
  }

  /** "Initialization": CHANGE_BAUDRATE, which is answered at the old rate. The next reset ends a rate that fails. */
  *#raiseBaud(): Conversation<void> {
    const baud = this.#settings.baud ?? romBaud;
    if (baud <= romBaud || this.#baudFailures >= maxBaudFailures) return;
    this.#baudFailures += 1;
    yield* demand({ command: espCommand.changeBaudRate, data: words(baud, 0) });
    yield { kind: 'baud', baud };
    yield* discard(repeatedAnswersMs);
    yield* probe();
    this.#baudFailures = 0;
  }
}

/** "Initialization": SYNC, by which the loader also detects the baud rate. */
function* synchronise(): Conversation<void> {
  const data = Uint8Array.of(0x07, 0x07, 0x12, 0x20, ...new Uint8Array(32).fill(0x55));
  try {
    yield* persist(() => demand({ command: espCommand.sync, data }), maxSyncs);
  } catch (error) {
    if (!isBoardError(error)) throw error;
    throw new McuError('board-timeout', 'the ROM loader is not responding', {
      advice: 'check power and cable, that GPIO0 (C3: GPIO9) is low at reset, and `reset = "dtr-rts"`',
      cause: error,
    });
  }
  yield* discard(repeatedAnswersMs);
}

/**
 * "SPI Attach Command", with two words for a ROM. The ESP8266's attaches the flash when a write begins, here an empty
 * one.
 */
function* attach(family: EspFamily): Conversation<void> {
  if (family.modern) yield* demand({ command: espCommand.spiAttach, data: words(0, 0) });
  else yield* demand({ command: espCommand.flashBegin, data: words(0, 0, packetBytes, 0) });
}

function* flashSize({ name, spi }: EspFamily): Conversation<number> {
  const id = yield* untilSameTwice(() => jedecId(spi));
  const bytes = flashBytesOf(id);
  if (bytes !== undefined) return bytes;
  throw new McuError('board-unknown', `the flash memory of ${name} reports ${hex(id)}, which is not a known size`, {
    advice: 'set `flash_bytes` of this target; if that does not help, check the wiring of the flash chip',
  });
}

/** "SPI Set Parameters": identifier, sizes of flash, block, sector and page, mask of the status. */
function* setParameters(flashBytes: number): Conversation<void> {
  const data = words(0, flashBytes, runBytes, sectorBytes, 256, 0xffff);
  yield* demand({ command: espCommand.spiSetParameters, data });
}

/** Tests whether the loader answers, by reading a register: that changes nothing, and needs no other state. */
function* probe(): Conversation<void> {
  yield* persist(() => readRegister(magicAddress), maxProbes);
}

/** Ends an interrupted packet, and drops the answer to it. */
function* resume(): Conversation<void> {
  yield* say(frameBreak);
  yield* probe();
}

/** "Verifying Uploaded Data": a ROM answers in hexadecimal text. */
const md5: ChipDigest = {
  *ofChip(address, length) {
    const data = words(address, length, 0, 0);
    const workMs = length * md5WorkMsPerByte;
    const response = yield* demand({ command: espCommand.flashMd5, data, workMs }, md5TextBytes);
    return Buffer.from(response.data.subarray(0, md5TextBytes)).toString('latin1').toLowerCase();
  },
  ofBytes: (bytes) => createHash('md5').update(bytes).digest('hex'),
};

/** "Writing Data": the end of an empty write, with the request to reboot. The reboot may cut its answer. */
function* restart(family: EspFamily): Conversation<void> {
  const begin = family.fifthWord ? words(0, 0, packetBytes, 0, 0) : words(0, 0, packetBytes, 0);
  yield* demand({ command: espCommand.flashBegin, data: begin });
  yield* say(encodeCommand({ command: espCommand.flashEnd, data: words(0) }));
}
