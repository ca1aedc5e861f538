import { deflateSync } from 'node:zlib';

import { isBoardError } from '../../errors.ts';
import { discard } from '../../protocol.ts';
import type { Conversation } from '../../protocol.ts';
import { espUnitBytes, sectorBytes } from './esp-chips.ts';
import type { EspFamily } from './esp-chips.ts';
import { answerToBreak, ask, checksumOf, invalidMessage, words } from './esp-frames.ts';
import type { EspCommand, EspResponse } from './esp-frames.ts';
import { demand, errorIn, espCommand, refusal } from './esp-registers.ts';

/** The data in one packet that every ROM accepts; esptool sends the same amount. */
export const packetBytes = 1024;
/** A damaged packet is sent at most so many times. */
const maxPacketTries = 6;
/** "ROM Loader Errors" that say that a packet arrived damaged, and that nothing of it was kept. */
const damaged: ReadonlySet<number> = new Set([0x04, invalidMessage, 0x07]);
/** Data sheets of SPI flash: erasing a sector takes at most 400 ms, programming a page of 256 bytes at most 3 ms. */
const sectorEraseMs = 400;
const pageWriteMs = 3;
const pageBytes = 256;
/** After a failure, the pieces shrink to this fraction. */
const shrink = 4;

interface Progress {
  readonly bytes: Uint8Array;
  done: number;
  pieceBytes: number;
}

/**
 * Writes sectors, which the loader erases and, with a modern ROM, inflates. A packet that the loader calls damaged is
 * sent again. A packet without an answer may have arrived; if it arrived twice it would spoil the following ones, so
 * the piece begins again with its erasing. The writer remembers its progress: a write that is repeated continues at the
 * piece that failed, in smaller pieces.
 */
export class EspWriter {
  readonly #family: EspFamily;
  readonly #unitBytes: number;
  #progress: Progress | undefined;

  constructor(family: EspFamily) {
    this.#family = family;
    this.#unitBytes = espUnitBytes(family);
  }

  /** Writes whole units. */
  *write(address: number, bytes: Uint8Array): Conversation<void> {
    const progress = this.#progressOf(bytes);
    while (progress.done < bytes.byteLength) {
      const piece = bytes.subarray(progress.done, progress.done + progress.pieceBytes);
      if (this.#family.modern) yield* this.#writeDeflated(address + progress.done, piece);
      else yield* writePlain(address + progress.done, piece);
      progress.done += piece.byteLength;
    }
    this.#progress = undefined;
  }

  #progressOf(bytes: Uint8Array): Progress {
    if (this.#progress?.bytes === bytes) {
      const units = Math.max(1, Math.floor(this.#progress.pieceBytes / shrink / this.#unitBytes));
      this.#progress.pieceBytes = units * this.#unitBytes;
    } else this.#progress = { bytes, done: 0, pieceBytes: bytes.byteLength };
    return this.#progress;
  }

  /** Compressed flash download. Source: Espressif, "Serial Protocol", "Writing Data". */
  *#writeDeflated(address: number, bytes: Uint8Array): Conversation<void> {
    const deflated = deflateSync(bytes, { level: 9 });
    const packets = Math.ceil(deflated.byteLength / packetBytes);
    const begin = words(bytes.byteLength, packets, packetBytes, address);
    const data = this.#family.fifthWord ? Buffer.concat([begin, words(0)]) : begin;
    yield* demand({ command: espCommand.deflateBegin, data, workMs: eraseWorkMs(bytes) });
    for (let sequence = 0; sequence < packets; sequence += 1) {
      const part = deflated.subarray(sequence * packetBytes, (sequence + 1) * packetBytes);
      yield* sendPacket(packetOf(espCommand.deflateData, part, sequence, writeWorkMs(bytes)));
    }
  }
}

/** Flash download ("Writing Data"). Because of the "Erase Size Bug", one sector of a pair is named. */
function* writePlain(address: number, bytes: Uint8Array): Conversation<void> {
  const packets = Math.ceil(bytes.byteLength / packetBytes);
  const data = words(bytes.byteLength / 2, packets, packetBytes, address);
  yield* demand({ command: espCommand.flashBegin, data, workMs: eraseWorkMs(bytes) });
  for (let sequence = 0; sequence < packets; sequence += 1) {
    const part = bytes.subarray(sequence * packetBytes, (sequence + 1) * packetBytes);
    yield* sendPacket(packetOf(espCommand.flashData, part, sequence, writeWorkMs(part)));
  }
}

/** "Checksum": length, number and two words of zero precede the data. */
function packetOf(command: number, part: Uint8Array, sequence: number, workMs: number): EspCommand {
  const data = Buffer.concat([words(part.byteLength, sequence, 0, 0), part]);
  return { command, data, checksum: checksumOf(part), workMs };
}

function* sendPacket(packet: EspCommand): Conversation<void> {
  for (let tries = 1; ; tries += 1) {
    const error = errorIn(yield* askOrBreak(packet), 0);
    if (error === undefined) return;
    if (tries >= maxPacketTries || !damaged.has(error)) throw refusal(packet.command, error);
    yield* discard();
  }
}

/** Sends a packet, and a frame end if it is not answered: perhaps only the end was lost. */
function* askOrBreak(packet: EspCommand): Conversation<EspResponse> {
  try {
    return yield* ask(packet);
  } catch (error) {
    if (!isBoardError(error) || error.code !== 'board-timeout') throw error;
    const late = yield* answerToBreak(packet.workMs ?? 0);
    if (late?.command !== packet.command) throw error;
    return late;
  }
}

function eraseWorkMs(bytes: Uint8Array): number {
  return Math.ceil(bytes.byteLength / sectorBytes) * sectorEraseMs;
}

/** The time for writing a deflated piece, all of which may be in one packet. */
function writeWorkMs(bytes: Uint8Array): number {
  return Math.ceil(bytes.byteLength / pageBytes) * pageWriteMs;
}
