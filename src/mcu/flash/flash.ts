import { checkFits } from '../chip.ts';
import type { Chip, Region } from '../chip.ts';
import { Connection } from '../connection.ts';
import type { Board } from '../connection.ts';
import { isBoardError, McuError } from '../errors.ts';
import type { BoardError } from '../errors.ts';
import { imageOfMemory } from '../images/image.ts';
import type { Image } from '../images/image.ts';
import type { MemorySession, Session } from '../protocol.ts';
import { enterBootloader, leaveBootloader } from '../reset.ts';
import { ChipMemory } from './chip-memory.ts';
import type { KnownBy } from './known-by.ts';
import { MemoryJob } from './memory-job.ts';
import type { KnownContents } from './memory-job.ts';
import { standingOf, UploadJob } from './upload-job.ts';

/** This number of the first bytes distinguishes a parked board from one with an application. */
const parkedProbeBytes = 64;

/** The memory is read again, if the port was lost while it was read; at most this number of times. */
const maxReads = 3;

/** Invariant 6: the longest wait for a board that was not changed to start its application. */
const maxLeaveMs = 3_000;

export type FlashPhase = 'connecting' | 'keeping' | 'comparing' | 'writing' | 'starting' | 'done';

export interface FlashProgress {
  readonly phase: FlashPhase;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export type OnFlashProgress = (progress: FlashProgress) => void;

export interface FlashRequest {
  readonly image: Image;
  /** The image that the board probably holds: the one flashed last. A wrong guess only costs time. */
  readonly expected?: Image | undefined;
  /** The name of the chip that the image was read from, or half written to. No other is flashed. */
  readonly chip?: string | undefined;
  /** The programs before the write that is now continued. A board without a trace of that write is left alone. */
  readonly before?: readonly Image[] | undefined;
  /** The image stays, without a trial by its bootloader: the board falls back to it. */
  readonly toStay?: true | undefined;
  /**
   * Called and awaited before the first change, with the board's running image, if the protocol can find it out, and the
   * parts of the memory that will change or hold the program. The image is undefined if there is none to restore, since
   * the memory was blank, or parked by an interrupted flash.
   */
  readonly keep?:
    | ((previous: Image | undefined, chip: string, changed?: readonly Region[]) => Promise<void>)
    | undefined;
  /** Called and awaited before the first change of the board; not called if it already holds the image. */
  readonly beforeWriting?: ((chip: string) => Promise<void>) | undefined;
  readonly onProgress?: OnFlashProgress | undefined;
}

/** A request whose board is connected. */
export type ConnectedRequest = Omit<FlashRequest, 'beforeWriting'> & { readonly beforeWriting: () => Promise<void> };

export interface FlashReport {
  readonly chip: Chip;
  readonly imageDigest: string;
  readonly totalBytes: number;
  /** The number of erase units written; 0: the board already held the image. An upload counts as one. */
  readonly unitsWritten: number;
  readonly unitsTotal: number;
  readonly known: KnownBy;
  /** The slot that starts, and its version. Undefined if the chip starts from one place only, or cannot tell. */
  readonly boots: string | undefined;
  /** The number of repeated turns and units; `resets` includes the first reset. */
  readonly repeated: number;
  readonly resets: number;
  readonly roundTripMs: number | undefined;
}

export interface ProbeReport {
  readonly chip: Chip;
  readonly can: readonly ('read' | 'digest' | 'erase' | 'write' | 'upload' | 'park')[];
  /** The slot that starts, and its version. Undefined if the chip starts from one place only, or cannot tell. */
  readonly boots: string | undefined;
  readonly roundTripMs: number | undefined;
}

export interface FlashPlan {
  readonly chip: Chip;
  readonly unitsTotal: number;
  /** Omitted if the protocol cannot find out. */
  readonly unitsDifferent: number | undefined;
}

/**
 * Guarantee `half-board`: brings an image onto a board: identifies the chip, checks that the image fits, saves the
 * previous content, writes the differences, verifies, and starts the application. The board is parked during the write
 * if the protocol can do that: wherever this is interrupted, the board never runs half a program, and can be flashed
 * again.
 */
export async function flash(request: FlashRequest, board: Board, signal: AbortSignal): Promise<FlashReport> {
  const report = request.onProgress ?? ((): void => {});
  report({ phase: 'connecting', doneBytes: 0, totalBytes: request.image.sizeBytes });
  return connected(board, signal, async (connection) => {
    const { name } = connection.session.chip;
    if (request.chip !== undefined && request.chip !== name) {
      throw new McuError('board-changed', `${name} answers, and the image is of ${request.chip}`);
    }
    checkFits(request.image, connection.session.chip);
    // a backup is restored, whatever it holds
    if (request.toStay !== true) connection.session.chip.checkStart?.(request.image);
    const beforeWriting = async (): Promise<void> => {
      report({ phase: 'writing', doneBytes: 0, totalBytes: request.image.sizeBytes });
      await request.beforeWriting?.(name);
      connection.isWriting = true;
    };
    const { rewritten, isStarted, ...outcome } =
      connection.session.kind === 'memory'
        ? await flashMemory(connection, { ...request, beforeWriting }, report, signal)
        : await new UploadJob(connection, { ...request, beforeWriting }, report).bringToRun(signal);
    report({ phase: 'starting', doneBytes: request.image.sizeBytes, totalBytes: request.image.sizeBytes });
    const { chip } = connection.session;
    const { roundTripMs } = connection;
    const boots = await bootsOf(connection, signal);
    if (!isStarted) await connection.leave(signal);
    report({ phase: 'done', doneBytes: request.image.sizeBytes, totalBytes: request.image.sizeBytes });
    return {
      chip,
      imageDigest: request.image.digest,
      totalBytes: request.image.sizeBytes,
      ...outcome,
      boots,
      repeated: connection.failures + rewritten,
      resets: connection.resets,
      roundTripMs,
    };
  });
}

/** Identifies the chip, and starts the application again. */
export async function probe(board: Board, signal: AbortSignal): Promise<ProbeReport> {
  return connected(board, signal, async (connection) => {
    const { session, roundTripMs } = connection;
    const boots = await bootsOf(connection, signal);
    await connection.leave(signal);
    return { chip: session.chip, can: abilitiesOf(session), boots, roundTripMs };
  });
}

function abilitiesOf(session: Session): ProbeReport['can'] {
  if (session.kind === 'upload') return ['upload'];
  const { parked: park, ...members } = session;
  const optional = (['read', 'digest', 'erase', 'park'] as const).filter((name) => ({ ...members, park })[name]);
  return [...optional, 'write'];
}

/** Restarts the application, whatever it is doing. */
export async function resetBoard(board: Board, signal: AbortSignal): Promise<void> {
  const { protocol, baud } = board;
  await using line = await board.openLine({ baud, parity: protocol.parity }, signal);
  const effect = await enterBootloader(line, board, signal);
  if (effect === 'no-modem-lines') {
    throw new McuError('board-unsupported', `${board.name}: its port has no modem lines to reset it with`);
  }
  if (effect === 'done') await leaveBootloader(line, board, signal);
}

/** Tells how much flashing the image would change. Changes nothing, and starts the application again. */
export async function planFlash(image: Image, board: Board, signal: AbortSignal): Promise<FlashPlan> {
  return connected(board, signal, async (connection) => {
    const { session } = connection;
    checkFits(image, session.chip);
    session.chip.checkStart?.(image);
    const different = await (session.kind === 'memory' ? compareMemory : compareSlots)(connection, image, signal);
    await connection.leave(signal);
    return { chip: session.chip, ...different };
  });
}

type Difference = Pick<FlashPlan, 'unitsTotal' | 'unitsDifferent'>;

async function compareMemory(connection: Connection, image: Image, signal: AbortSignal): Promise<Difference> {
  const memory = new ChipMemory(connection);
  const plan = await memory.planBoot(image, false, signal);
  const job = new MemoryJob(connection, memory, plan.image, () => {});
  return { unitsTotal: job.units.length, unitsDifferent: await job.countDifferent(signal) };
}

async function compareSlots(connection: Connection, image: Image, signal: AbortSignal): Promise<Difference> {
  const standing = await standingOf(connection, image, signal);
  const isHeld = standing === 'stays' || standing === 'first';
  return { unitsTotal: 1, unitsDifferent: standing === 'unknown' ? undefined : Number(!isHeld) };
}

async function connected<T>(
  board: Board,
  signal: AbortSignal,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  try {
    await using connection = await Connection.to(board, signal);
    try {
      return await use(connection);
    } catch (error) {
      const failure = connection.isWriting ? undefined : await leaveUnchanged(connection);
      if (failure?.code !== 'board-refused' || !(error instanceof McuError)) throw error;
      const { code, message, advice } = error;
      if (message === failure.message) throw error;
      throw new McuError(code, `${message}; and ${failure.message}`, {
        advice: `${advice}; ${failure.advice}`,
        cause: error,
      });
    }
  } catch (error) {
    throw isBoardError(error) ? error.on(board.name) : error;
  }
}

/**
 * Starts the application of a board that was not changed, because the flashing ended before the first write, if the
 * board still answers. Returns the error if that failed.
 */
async function leaveUnchanged(connection: Connection): Promise<BoardError | undefined> {
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(new McuError('board-timeout', 'it was not left in time')), maxLeaveMs);
  try {
    await connection.leave(ending.signal);
    return undefined;
  } catch (error) {
    if (!isBoardError(error)) throw error;
    return error;
  } finally {
    clearTimeout(timer);
  }
}

/** The part of a report that depends on the kind of the session. */
export type Outcome = Pick<FlashReport, 'unitsWritten' | 'unitsTotal' | 'known'> & {
  readonly rewritten: number;
  readonly isStarted: boolean;
};

async function flashMemory(
  connection: Connection,
  { image, expected, before, keep, toStay, beforeWriting }: ConnectedRequest,
  report: OnFlashProgress,
  signal: AbortSignal,
): Promise<Outcome> {
  const memory = new ChipMemory(connection);
  const plan = await memory.planBoot(image, toStay === true, signal);
  const job = new MemoryJob(connection, memory, plan.image, report);
  if (before !== undefined) await job.requireBegun(before, signal);
  let known: KnownContents = expected === undefined ? { kind: 'nothing' } : { kind: 'guess', image: expected };
  if (keep !== undefined && memory.canRead) {
    const { chip, parked } = memory.session;
    const { start, end } = chip.application;
    const onBytes = (doneBytes: number): void => report({ phase: 'keeping', doneBytes, totalBytes: end - start });
    const bytes = await readOfOneBoard(connection, async () => memory.read(chip.application, onBytes, signal));
    const previous = isParked(bytes, parked) ? undefined : imageOfMemory(bytes, start);
    const changed = [...job.units, ...(expected === undefined ? [] : memory.unitsOf(expected))];
    await keep(previous, chip.name, memory.programAround(changed, bytes));
    known = { kind: 'read', memory: bytes, start };
  }
  if (plan.before !== undefined) await keep?.(plan.before, memory.session.chip.name);
  await job.bringUpToDate(known, beforeWriting, signal);
  return {
    unitsWritten: job.unitsWritten,
    unitsTotal: job.units.length,
    known: plan.known,
    rewritten: job.rewritten,
    isStarted: false,
  };
}

/** Reads again if the port was lost while reading: when it returns, it may lead to another board. */
async function readOfOneBoard(connection: Connection, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
  for (let tries = 0; tries < maxReads; tries += 1) {
    let isSame = true;
    connection.onReturn = async () => void (isSame = false);
    const bytes = await read();
    connection.onReturn = undefined;
    if (isSame) return bytes;
  }
  throw new McuError('board-timeout', 'the port was lost each time the memory was read');
}

/** True if the board was parked by an interrupted flash, so that it holds nothing to restore. */
function isParked(memory: Uint8Array, parked: MemorySession['parked']): boolean {
  if (parked === undefined) return false;
  const guard = memory.subarray(0, parkedProbeBytes);
  const left = new Uint8Array(guard.byteLength).fill(0xff);
  if (parked !== 'erased') left.set(parked);
  return Buffer.compare(guard, left) === 0;
}

async function bootsOf(connection: Connection, signal: AbortSignal): Promise<string | undefined> {
  return connection.run(function* ask({ boots }) {
    return boots === undefined ? undefined : yield* boots();
  }, signal);
}
