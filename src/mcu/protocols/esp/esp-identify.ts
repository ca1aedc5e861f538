import { hex, isBoardError, McuError } from '../../errors.ts';
import type { BoardError } from '../../errors.ts';
import { discard, untilSameTwice } from '../../protocol.ts';
import type { Conversation } from '../../protocol.ts';
import { espFamilies } from './esp-chips.ts';
import type { EspFamily, EspIdentity } from './esp-chips.ts';
import { ask, words } from './esp-frames.ts';
import { errorIn, espCommand, readRegister, refusal } from './esp-registers.ts';

/** The register whose value differs on each chip. Source: Espressif, "Serial Protocol", "Chip Type Detection". */
export const magicAddress = 0x4000_1000;

/** GET_SECURITY_INFO: flags, count of encryption changes, seven key purposes, chip number, revision. */
const securityInfoBytes = 20;
/** Flags: Secure Boot, Secure Download Mode. */
const secureBootFlag = 1;
const secureDownloadFlag = 4;
/** Fuses of the ESP32: seven bits that count encryption changes, and Secure Boot in its first and second version. */
const [encryptionShift, encryptionMask, secureBootFuses] = [20, 0x7f, 0x30];

/** Answers to a command that the loader lacks arrive more than once. */
const repeatedAnswersMs = 50;

/**
 * Identifies the chip; refuses unknown and locked ones. Answers carry no checksum, so that a single one is not
 * believed.
 */
export function* identify(): Conversation<EspIdentity> {
  const found = yield* untilSameTwice(identifyOnce);
  if (isBoardError(found)) throw found;
  return found;
}

function* identifyOnce(): Conversation<EspIdentity | BoardError> {
  try {
    return yield* conclude();
  } catch (error) {
    if (isBoardError(error) && error.remedy === 'give-up') return error;
    throw error;
  }
}

/** "Chip Type Detection": by the chip's number if the loader states one, else by the magic register. */
function* conclude(): Conversation<EspIdentity> {
  const asked = { command: espCommand.securityInfo, data: new Uint8Array() };
  const response = yield* ask(asked);
  if (errorIn(response, securityInfoBytes) !== undefined || response.data.byteLength < securityInfoBytes) {
    yield* discard(repeatedAnswersMs);
    return yield* identifyByRegister();
  }
  const info = Buffer.from(response.data);
  const chipId = info.readUInt32LE(12);
  const family = espFamilies.find((candidate) => candidate.fifthWord && candidate.chipId === chipId);
  const flags = info.readUInt32LE(0);
  const name = family?.name ?? `the ESP with number ${chipId}`;
  if ((flags & secureDownloadFlag) !== 0) throw locked(name, 'is in secure download mode: it cannot be read back');
  if (isOdd(info.readUInt8(4))) throw locked(name, 'encrypts its flash memory: a plain image would not start');
  if (family === undefined) throw unknown(`the chip number ${chipId}`);
  return { family, revision: yield* revisionOf(family), securesBoot: (flags & secureBootFlag) !== 0 };
}

function* identifyByRegister(): Conversation<EspIdentity> {
  const answer = yield* ask({ command: espCommand.readRegister, data: words(magicAddress) });
  const error = errorIn(answer, 0);
  // a loader that cannot read registers is locked, or no loader
  if (error !== undefined) throw refusal(espCommand.readRegister, error);
  const family = espFamilies.find(({ magics }) => magics.includes(answer.value));
  if (family === undefined) throw unknown(`the magic number ${hex(answer.value)}`);
  const revision = yield* revisionOf(family);
  if (family.fuses === undefined) return { family, revision, securesBoot: false };
  const encryption = (yield* readRegister(family.fuses.encryption)) >>> encryptionShift;
  if (isOdd(encryption & encryptionMask)) {
    throw locked(family.name, 'encrypts its flash memory: a plain image would not start');
  }
  const securesBoot = ((yield* readRegister(family.fuses.secureBoot)) & secureBootFuses) !== 0;
  return { family, revision, securesBoot };
}

/** APB_CTRL_DATE of the ESP32: its highest bit is one of the revision. */
const dateAddress = 0x3ff6_607c;
/** The word with the version of block 2 of an ESP32-S3, from block 1 on. */
const secondBlockVersion = 0x28;
const majorByBits = [0, 1, 0, 2, 0, 0, 0, 3];

/** The revision by the fuses: `get_chip_revision` of esptool. */
function* revisionOf({ name, revisionFuses: fuses }: EspFamily): Conversation<number | undefined> {
  if (fuses === 0) return undefined;
  const [third, fifth] = [yield* readRegister(fuses + 12), yield* readRegister(fuses + 20)];
  if (name === 'ESP32') {
    const last = (yield* readRegister(dateAddress)) >>> 31;
    const bits = (last << 2) | (bitsOf(fifth, 20, 1) << 1) | bitsOf(third, 15, 1);
    return (majorByBits[bits] ?? 0) * 100 + bitsOf(fifth, 24, 2);
  }
  const low = bitsOf(third, 18, 3);
  // version 1.1 of the second block is on ESP32-S3 v0.0 only, and uses these fuses for something else
  const isFirst = name === 'ESP32-S3' && low === 0 && bitsOf(third, 24, 3) === 1;
  if (isFirst && bitsOf(yield* readRegister(fuses + secondBlockVersion), 0, 2) === 1) return 0;
  return bitsOf(fifth, 24, 2) * 100 + bitsOf(fifth, 23, 1) * 8 + low;
}

function bitsOf(word: number, shift: number, count: number): number {
  return (word >>> shift) & (2 ** count - 1);
}

function unknown(what: string): McuError {
  const names = espFamilies.map(({ name }) => name).join(', ');
  return new McuError('board-unknown', `no ESP with ${what} is known, only ${names}`);
}

function locked(name: string, why: string): McuError {
  return new McuError('board-protected', `${name} ${why}`, {
    advice: 'the fuses of this chip cannot be undone: update it over the air, by its own firmware',
  });
}

/** Encryption is on after an odd number of changes. */
function isOdd(count: number): boolean {
  let bits = 0;
  for (let rest = count; rest !== 0; rest >>>= 1) bits += rest & 1;
  return bits % 2 === 1;
}
