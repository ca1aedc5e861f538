import { expect } from 'vitest';

import { Connection } from '../../../../src/mcu/connection.ts';
import type { Board } from '../../../../src/mcu/connection.ts';
import { isBoardError } from '../../../../src/mcu/errors.ts';
import { ChipMemory } from '../../../../src/mcu/flash/chip-memory.ts';
import { flash, probe } from '../../../../src/mcu/flash/flash.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import type { Protocol } from '../../../../src/mcu/protocol.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import type { BoardModel } from '../../../fakes/boards/models/board-model.ts';
import { VirtualPort } from '../../../fakes/boards/models/virtual-line.ts';
import type { Direction, Fault } from '../../../fakes/boards/models/virtual-line.ts';

/** A protocol, a board that speaks it, and the programs before and after. */
export interface Subject {
  readonly protocol: () => Protocol;
  readonly model: (programs: Programs) => BoardModel;
  readonly programs: Programs;
  /** Address of the programs in the chip. */
  readonly start: number;
  readonly baud: number;
  /** Power may fail inside the first block, which no bootloader of this kind survives with its start intact. */
  readonly mayBlankStart: boolean;
  /** Commands carry no checksum: noise may spell one that erases, before the board is parked. */
  readonly obeysNoise: boolean;
  /** In each direction, where each fault is tried; 32 if not given. */
  readonly places?: number;
}

export interface Programs {
  readonly old: Uint8Array;
  readonly new: Uint8Array;
}

export interface Cell {
  readonly flashed: number;
  readonly failed: ReadonlyMap<string, number>;
  readonly slowestMs: number;
}

const signal = new AbortController().signal;

/**
 * Returns a program of this size that differs in every block from programs of other seeds. It begins with
 * instructions of an AVR up to a loop, and with the stack pointer and the reset vector of a Cortex-M in an STM32.
 */
export function program(bytes: number, seed: number): Uint8Array {
  return started(
    Uint8Array.from({ length: bytes }, (_, index) => (index * 31 + (index >> 6) * 7 + seed * 89 + 5) & 0xff),
    seed,
  );
}

function started(bytes: Uint8Array, seed: number): Uint8Array {
  const waits = 4 + ((seed * 4) & 0x7f);
  const jump = (waits - 5) & 0xfff;
  // LSL, AND, MOVW, SBC and RJMP, or the stack pointer 0x20000c00 and the reset vector 0x08000111
  bytes.set([0, 0x0c, 0, 0x20, 0x11, 0x01, 0, 0x08, jump & 0xff, 0xc0 | (jump >> 8)]);
  bytes.set([0xff, 0xcf], 2 * waits);
  return bytes;
}

/** One of which every tenth byte is noise, so that little can be deflated of it. */
export function noisyProgram(bytes: number, seed: number): Uint8Array {
  let noise = seed;
  const noisy = program(bytes, seed).map((byte, index) => {
    noise = (Math.imul(noise, 1_103_515_245) + 12_345) & 0x7fffffff;
    return index % 10 === 0 ? noise >> 16 : byte;
  });
  return started(noisy, seed);
}

export function imageOf(subject: Subject): Image {
  return readImage(subject.programs.new, { address: subject.start, isRaw: true });
}

interface Rig {
  readonly model: BoardModel;
  readonly port: VirtualPort;
  readonly board: Board;
}

export function rigOf(subject: Subject, latencyMs = 0): Rig {
  const model = subject.model(subject.programs);
  const port = new VirtualPort(model, latencyMs);
  const board: Board = {
    name: 'board',
    protocol: subject.protocol(),
    baud: subject.baud,
    reset: 'dtr',
    openLine: port.open,
    clock: port.clock,
    log: silentLog,
  };
  return { model, port, board };
}

/** A flash without faults: its bytes in each direction, and where the board answered with no more than a few. */
export interface CleanRun {
  readonly counts: Readonly<Record<Direction, number>>;
  readonly acknowledgements: readonly number[];
}

export async function cleanRun(subject: Subject): Promise<CleanRun> {
  const { model, port, board } = rigOf(subject);
  await flash({ image: imageOf(subject) }, board, signal);
  expectFlashed(model, subject);
  expect(model.overruns).toBe(0);
  return { counts: port.counts, acknowledgements: port.shortAnswers };
}

/** One fault at each of the places, one flash each. Every one ends flashed, or with a named error and then flashed. */
export async function sweepFault(subject: Subject, kind: Fault['kind'], places: readonly Place[]): Promise<Cell> {
  const cell = new CellCount();
  for (const place of places) {
    const { model, port, board } = rigOf(subject);
    const mayHaveBroken = kind === 'garbage' && subject.obeysNoise;
    port.inject({ kind, ...place });
    const finished = await cell.count(port, async () => flash({ image: imageOf(subject) }, board, signal));
    if (finished) expectFlashed(model, subject, mayHaveBroken);
    port.inject();
    await flash({ image: imageOf(subject) }, board, signal);
    expectFlashed(model, subject, mayHaveBroken);
  }
  return cell.result();
}

/** The adapter begins to echo at each of the places, and stops before the next flash. */
export async function sweepEcho(subject: Subject, places: readonly Place[]): Promise<Cell> {
  const cell = new CellCount();
  for (const place of places) {
    const { model, port, board } = rigOf(subject);
    port.inject({ kind: 'echo', ...place });
    const finished = await cell.count(port, async () => flash({ image: imageOf(subject) }, board, signal));
    if (finished) expectFlashed(model, subject);
    else expectNothingBroken(model, subject);
    port.inject();
    await flash({ image: imageOf(subject) }, board, signal);
    expectFlashed(model, subject);
  }
  return cell.result();
}

/** Reads what the board holds, each time with several faults: right, or with a named error. */
export async function sweepRead(subject: Subject, kind: Fault['kind'], readings: number): Promise<number> {
  const clean = await readWith(subject, []);
  let failures = 0;
  for (let reading = 0; reading < readings; reading += 1) {
    const faults = Array.from({ length: 1 + (reading % 7) }, (_, index): Fault => {
      const at = 1 + ((reading * 7_919 + index * 104_729) % clean['to-host']);
      return { kind, direction: 'to-host', at };
    });
    try {
      await readWith(subject, faults);
    } catch (error) {
      if (!isBoardError(error)) throw error;
      failures += 1;
    }
  }
  return failures;
}

/** The number of the first bytes in a direction in which `chipsFound` flips each bit. */
const flippedBytes = 40;

/** Returns what the agent takes the chip for, and its room for images, with each bit of the first bytes flipped. */
export async function chipsFound(subject: Subject): Promise<Set<string>> {
  const found = new Set<string>();
  for (let bit = 0; bit < 2 * flippedBytes * 8; bit += 1) {
    const { port, board } = rigOf(subject);
    const direction = bit % 2 === 0 ? 'to-host' : 'to-board';
    port.inject({ kind: 'flip', direction, at: 1 + (bit >> 4), bit: (bit >> 1) & 7 });
    try {
      const { chip } = await probe(board, signal);
      found.add(`${chip.name} with room up to ${chip.application.end}`);
    } catch (error) {
      if (!isBoardError(error)) throw error;
    }
  }
  return found;
}

async function readWith(subject: Subject, faults: readonly Fault[]): Promise<CleanRun['counts']> {
  const { old } = subject.programs;
  const { port, board } = rigOf(subject);
  await using connection = await Connection.to(board, signal);
  port.inject(...faults);
  const region = { start: subject.start, end: subject.start + old.byteLength };
  const bytes = await new ChipMemory(connection).read(region, () => {}, signal);
  expect(Buffer.compare(bytes, old)).toBe(0);
  return port.counts;
}

export async function sweepLatency(subject: Subject, latencyMs: number): Promise<Cell> {
  const cell = new CellCount();
  const { model, port, board } = rigOf(subject, latencyMs);
  await cell.count(port, async () => flash({ image: imageOf(subject) }, board, signal));
  expectFlashed(model, subject);
  return cell.result();
}

/** Power is lost at every block, before it is in memory and after; comes back, and the board is flashed again. */
export async function sweepPowerLoss(subject: Subject): Promise<Cell> {
  const cell = new CellCount();
  for (const torn of [true, false]) {
    for (let writes = 0; writes < maxWrites; writes += 1) {
      const { model, port, board } = rigOf(subject);
      model.dieAtWrite(writes, torn);
      await cell.count(port, async () => flash({ image: imageOf(subject) }, board, signal));
      if (!model.dead) break;
      model.power(port.clock.monotonicMs());
      expectNothingBroken(model, subject);
      await flash({ image: imageOf(subject) }, board, signal);
      expectFlashed(model, subject);
    }
  }
  return cell.result();
}

const maxWrites = 200;
/** However a board dies, its flash ends. */
const longestMs = 180_000;

export interface Place {
  readonly direction: Direction;
  readonly at: number;
}

/** Returns this number of positions in each direction, spread evenly over a clean run. */
export function placesOf({ counts }: CleanRun, places: number): Place[] {
  return (['to-board', 'to-host'] as const).flatMap((direction) =>
    Array.from({ length: places }, (_, index) => ({
      direction,
      at: 1 + Math.floor((index * counts[direction]) / places),
    })),
  );
}

/** The acknowledgements of a clean run: what they acknowledge was done, and must not simply be done again. */
export function acknowledgementsOf({ acknowledgements }: CleanRun, most: number): Place[] {
  const step = Math.max(1, Math.floor(acknowledgements.length / most));
  return acknowledgements.filter((_, index) => index % step === 0).map((at) => ({ direction: 'to-host', at }));
}

class CellCount {
  #flashed = 0;
  #slowestMs = 0;
  readonly #failed = new Map<string, number>();

  /** True if the attempt succeeded. */
  async count(port: VirtualPort, attempt: () => Promise<unknown>): Promise<boolean> {
    const startMs = port.clock.monotonicMs();
    try {
      await attempt();
      this.#flashed += 1;
      return true;
    } catch (error) {
      if (!isBoardError(error)) throw error;
      this.#failed.set(error.code, (this.#failed.get(error.code) ?? 0) + 1);
      return false;
    } finally {
      this.#slowestMs = Math.max(this.#slowestMs, port.clock.monotonicMs() - startMs);
    }
  }

  result(): Cell {
    expectEnds(this.#slowestMs);
    return { flashed: this.#flashed, failed: this.#failed, slowestMs: this.#slowestMs };
  }
}

function expectEnds(slowestMs: number): void {
  expect(slowestMs).toBeLessThan(longestMs);
}

function expectFlashed(model: BoardModel, subject: Subject, mayHaveBroken = false): void {
  expect(Buffer.compare(model.memory, subject.programs.new)).toBe(0);
  expect(model.ran.at(-1)).toBe('new');
  if (!mayHaveBroken) expectNothingBroken(model, subject);
}

function expectNothingBroken(model: BoardModel, subject: Subject): void {
  expect(model.ran).not.toContain('broken');
  if (!subject.mayBlankStart) expect(model.ran).not.toContain('blank');
  expect(model.violations).toEqual([]);
}

export function printMatrix(name: string, rows: readonly (readonly [string, Cell])[]): void {
  const lines = rows.map(([fault, { flashed, failed, slowestMs }]) => {
    const errors = [...failed].map(([code, count]) => `${code} ${count}`).join(', ');
    return `  ${fault.padEnd(12)} ${`${flashed} flashed`.padEnd(14)} ${(errors || '-').padEnd(24)} ${(slowestMs / 1000).toFixed(2)} s at most`;
  });
  console.log([`fault matrix: ${name}`, ...lines].join('\n'));
}
