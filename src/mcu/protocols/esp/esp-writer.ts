import { deflateSync } from 'node:zlib';

import { McuError } from '../../errors.ts';
import { discard } from '../../protocol.ts';
import type { Conversation } from '../../protocol.ts';
import { espUnitBytes, sectorBytes } from './esp-chips.ts';
import type { EspFamily } from './esp-chips.ts';
import { answerToBreak, ask, checksumOf, invalidMessage, words } from './esp-frames.ts';
import type { EspCommand, EspResponse } from './esp-frames.ts';
import { demand, errorIn, espCommand, refusal } from './esp-registers.ts';

/** Data in one packet that every ROM takes; esptool sends it the same. */
export const packetBytes = 1024;
/** A damaged packet is sent again so often. */
const maxPacketTries = 6;
/** "ROM Loader Errors" that say that a packet was damaged on its way, and that nothing of it was kept. */
const damaged: ReadonlySet<number> = new Set([0x04, invalidMessage, 0x07]);
const quietMs = 20;
/** Data sheets of SPI flash: a sector erases in at most 400 ms, a page of 256 bytes is programmed in at most 3. */
const sectorEraseMs = 400;
const pageWriteMs = 3;
const pageBytes = 256;
/** What is written at once shrinks to a part of that when it fails. */
const shrink = 4;

interface Progress {
  readonly bytes: Uint8Array;
  done: number;
  pieceBytes: number;
}

/**
 * Writes sectors: erased, and with a modern ROM inflated, by the loader. A packet that the loader calls damaged is sent
 * again. One without an answer may have been taken, and taken twice it would ruin what follows: then the piece begins anew,
 * from its erasing. What was being written is remembered, so that a write which is repeated goes on with the piece that
 * failed, in smaller ones.
 */
export class EspWriter {
  readonly #family: EspFamily;
  readonly #unitBytes: number;
  #progress: Progress | undefined;

  constructor(family: EspFamily) {
    this.#family = family;
    this.#unitBytes = espUnitBytes(family);
  }

  /** Of whole units. */
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

  /** Espressif, "Serial Protocol", "Writing Data": compressed flash download. */
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

/** "Writing Data": flash download; "Erase Size Bug": of a pair of sectors, one is to be named. */
function* writePlain(address: number, bytes: Uint8Array): Conversation<void> {
  const packets = Math.ceil(bytes.byteLength / packetBytes);
  const data = words(bytes.byteLength / 2, packets, packetBytes, address);
  yield* demand({ command: espCommand.flashBegin, data, workMs: eraseWorkMs(bytes) });
  for (let sequence = 0; sequence < packets; sequence += 1) {
    const part = bytes.subarray(sequence * packetBytes, (sequence + 1) * packetBytes);
    yield* sendPacket(packetOf(espCommand.flashData, part, sequence, writeWorkMs(part)));
  }
}

/** "Checksum": length, number and two words of nothing before the data. */
function packetOf(command: number, part: Uint8Array, sequence: number, workMs: number): EspCommand {
  const data = Buffer.concat([words(part.byteLength, sequence, 0, 0), part]);
  return { command, data, checksum: checksumOf(part), workMs };
}

function* sendPacket(packet: EspCommand): Conversation<void> {
  for (let tries = 1; ; tries += 1) {
    const error = errorIn(yield* askOrBreak(packet), 0);
    if (error === undefined) return;
    if (tries >= maxPacketTries || !damaged.has(error)) throw refusal(packet.command, error);
    yield* discard(quietMs);
  }
}

/** The end of the packet may be what got lost: with another one, what came of it is heard. */
function* askOrBreak(packet: EspCommand): Conversation<EspResponse> {
  try {
    return yield* ask(packet);
  } catch (error) {
    if (!(error instanceof McuError) || error.code !== 'board-silent') throw error;
    const late = yield* answerToBreak(packet.workMs ?? 0);
    if (late?.command !== packet.command) throw error;
    return late;
  }
}

function eraseWorkMs(bytes: Uint8Array): number {
  return Math.ceil(bytes.byteLength / sectorBytes) * sectorEraseMs;
}

/** Of a deflated piece, one packet may hold it all. */
function writeWorkMs(bytes: Uint8Array): number {
  return Math.ceil(bytes.byteLength / pageBytes) * pageWriteMs;
}
