import { hex, isBoardError, McuError } from '../../errors.ts';
import type { BoardError } from '../../errors.ts';
import { discard, untilSameTwice } from '../../protocol.ts';
import type { Conversation } from '../../protocol.ts';
import { espFamilies } from './esp-chips.ts';
import type { EspFamily } from './esp-chips.ts';
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

export interface EspIdentity {
  readonly family: EspFamily;
  /** The chip starts only a signed bootloader. */
  readonly securesBoot: boolean;
}

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
  return { family, securesBoot: (flags & secureBootFlag) !== 0 };
}

function* identifyByRegister(): Conversation<EspIdentity> {
  const answer = yield* ask({ command: espCommand.readRegister, data: words(magicAddress) });
  const error = errorIn(answer, 0);
  // a loader that cannot read registers is locked, or no loader
  if (error !== undefined) throw refusal(espCommand.readRegister, error);
  const family = espFamilies.find(({ magics }) => magics.includes(answer.value));
  if (family === undefined) throw unknown(`the magic number ${hex(answer.value)}`);
  if (family.fuses === undefined) return { family, securesBoot: false };
  const encryption = (yield* readRegister(family.fuses.encryption)) >>> encryptionShift;
  if (isOdd(encryption & encryptionMask)) {
    throw locked(family.name, 'encrypts its flash memory: a plain image would not start');
  }
  return { family, securesBoot: ((yield* readRegister(family.fuses.secureBoot)) & secureBootFuses) !== 0 };
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
