import { basename } from 'node:path';

import type { OnEvent, OperationOutcome } from '../control/events.ts';
import type { InputOf } from '../control/operations.ts';
import type { BoardPlan, BoardProbe, BoardReport, BoardWriting } from '../control/reports.ts';
import { VerificationError, FirmwareError } from '../firmware/errors.ts';
import { payloadDigest } from '../mcu/flash/board-store.ts';
import type { BoardStore } from '../mcu/flash/board-store.ts';
import { planFlash, probe, resetBoard } from '../mcu/flash/flash.ts';
import { claimsOf } from '../mcu/images/read-image.ts';
import { flashImage, healBoard, keptUndamaged, restoreImage } from '../mcu/mcu-target.ts';
import type { BoardJob, McuTargetParts } from '../mcu/mcu-target.ts';
import { isPortPresent } from '../serial/port-holders.ts';
import { AgentError, describeError } from '../system/errors.ts';
import { readOutsideFile } from '../system/files/outside-file.ts';
import { Turns } from '../system/turns.ts';
import { refuseOldBoards } from '../update/choice/release-rules.ts';
import { evidenceOfFile, evidenceOfKept } from '../update/evidence.ts';
import type { FileGrounds } from '../update/evidence.ts';
import { DaemonError } from './errors.ts';
import type { Wiring } from './wiring/wiring.ts';

/** The configured boards, as far as that can be told without talking to them. */
export async function listBoards({ boards, config }: Wiring): Promise<readonly BoardReport[]> {
  const reports: BoardReport[] = [];
  for (const settings of config.targets) {
    if (settings.kind !== 'mcu') continue;
    const { name, port, protocol } = settings;
    const store = boards.get(name)?.store;
    const flashed = await store?.flashed();
    const writing = store === undefined ? undefined : await writingOn(store);
    const connected = await isPortPresent(port);
    const facts = { chip: flashed?.chip, imageDigest: flashed?.imageDigest, imageName: flashed?.name };
    const last = { flashedAt: flashed?.at, attempts: flashed?.attempts, roundTripMs: flashed?.roundTripMs };
    reports.push({ name, port, protocol, connected, ...facts, ...last, writing });
  }
  return reports;
}

async function writingOn(store: BoardStore): Promise<BoardWriting | undefined> {
  const mark = await store.writing();
  if (mark === undefined) return undefined;
  const { name, at } = mark === 'unreadable' ? { name: 'an image', at: undefined } : mark;
  return { name, since: at, restorable: (await keptUndamaged(store))?.image !== undefined };
}

/**
 * Promise `half-board`: finishes or undoes the writing of each board whose last write was cut. Boards that a running
 * update has touched are left to the update. A board that cannot be reached is tried again in the next round.
 */
export async function healBoards(wiring: Wiring, onEvent: OnEvent, signal: AbortSignal): Promise<void> {
  const { journal, boards, world } = wiring;
  const { phase } = journal.state;
  if (phase.kind === 'lost') return;
  const touched: readonly string[] = 'boards' in phase ? Object.keys(phase.boards) : [];
  for (const [name, { board, store }] of boards) {
    if (touched.includes(name) || (await store.writing()) === undefined) continue;
    onEvent({ kind: 'phase', phase: 'flashing', detail: `${name}, whose last write was cut` });
    try {
      const runs = await healBoard({ board, store, onProgress: progressTo(onEvent), vouch: evidenceOfKept }, signal);
      world.log.info({ board: name }, `the board is whole again and runs ${runs ?? 'its program'}`);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      world.log.error({ board: name, code: error.code, advice: error.advice }, `half written: ${error.message}`);
    }
  }
}

export async function probeBoard(wiring: Wiring, name: string, signal: AbortSignal): Promise<BoardProbe> {
  const { chip, can, roundTripMs } = await probe(boardOf(wiring, name).board, signal);
  return { name, chip: chip.name, can, roundTripMs };
}

/** A HEX file is more than twice as large as the bytes in it. */
const MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024;
/** Only one image is in memory at a time, however many plans are asked for. */
const plans = new Turns(1);

/** Tells how much flashing this file would change; changes nothing. */
export async function planBoard(wiring: Wiring, name: string, path: string, signal: AbortSignal): Promise<BoardPlan> {
  const { board, readImage } = boardOf(wiring, name);
  const plan = async (): ReturnType<typeof planFlash> =>
    planFlash(await readImage(await readImageFile(path, signal)), board, signal);
  const { chip, unitsTotal, unitsDifferent } = await plans.run(plan, signal);
  return { name, chip: chip.name, unitsTotal, unitsDifferent };
}

/**
 * Flashes a file that a person brings, outside of any update. Only images for MCUboot have a signature of their own;
 * any other file needs the operator's permission.
 */
export async function flashBoard(
  wiring: Wiring,
  { board: name, path, allowDowngrade, keep }: InputOf<'flash'>,
  onEvent: OnEvent,
  signal: AbortSignal,
): Promise<OperationOutcome> {
  const { board, store, readImage } = boardOf(wiring, name);
  const grounds = groundsFor(wiring, name);
  const bytes = await readImageFile(path, signal);
  const image = await readImage(bytes);
  const payloads = [{ target: name, kind: 'mcu', ...claimsOf(bytes) }] as const;
  refuseOldBoards({ payloads }, wiring.journal.state, wiring.config.trust, { allowDowngrade });
  const payload = { digest: payloadDigest(bytes), onProgress: progressTo(onEvent) };
  onEvent({ kind: 'phase', phase: 'flashing', detail: name });
  const version = basename(path);
  const evidence = evidenceOfFile(payload.digest, grounds);
  const job = { board, store, image, payload, evidence, name: version, keep };
  const { unitsWritten } = await flashImage(job, signal);
  return { kind: 'flashed', version, board: name, ...(unitsWritten === 0 && { unchanged: true }) };
}

/** Puts back what the board held before it was last flashed. */
export async function restoreBoard(
  wiring: Wiring,
  name: string,
  onEvent: OnEvent,
  signal: AbortSignal,
): Promise<OperationOutcome> {
  const { board, store } = boardOf(wiring, name);
  const kept = await store.kept();
  if (kept?.image === undefined) {
    throw new DaemonError('nothing-to-restore', `${name}: nothing is kept of what it held before`);
  }
  onEvent({ kind: 'phase', phase: 'flashing', detail: name });
  await restoreImage({ board, store, onProgress: progressTo(onEvent), vouch: evidenceOfKept }, kept.image, signal);
  return { kind: 'flashed', version: 'what it held before', board: name };
}

export async function restartBoard(wiring: Wiring, name: string, signal: AbortSignal): Promise<void> {
  await resetBoard(boardOf(wiring, name).board, signal);
}

function boardOf({ boards }: Wiring, name: string): McuTargetParts {
  const parts = boards.get(name);
  if (parts !== undefined) return parts;
  const known = [...boards.keys()].join(', ');
  const others = known === '' ? 'none is configured' : `there are: ${known}`;
  throw new DaemonError('board-not-configured', `there is no board ${name} (${others})`);
}

/** Throws where nothing would vouch for a file of this board. */
function groundsFor({ config }: Wiring, name: string): FileGrounds {
  const settings = config.targets.find((target) => target.name === name);
  const isSigned = settings?.kind === 'mcu' && settings.mcubootKeyFile !== undefined;
  const { allowUnsigned } = config.trust;
  if (isSigned || allowUnsigned) return { isSigned, allowUnsigned };
  throw new VerificationError(
    'image-unsigned',
    `${name}: a file without a signature is not flashed`,
    'install a signed artifact (agent install FILE), or set [trust] allow_unsigned = true',
  );
}

async function readImageFile(path: string, signal: AbortSignal): Promise<Buffer> {
  try {
    return await readOutsideFile(path, { maxBytes: MAX_IMAGE_FILE_BYTES }, signal);
  } catch (error) {
    throw new FirmwareError('file-unreadable', `${path} cannot be read: ${describeError(error)}`, { cause: error });
  }
}

function progressTo(onEvent: OnEvent): BoardJob['onProgress'] {
  return (progress) => onEvent({ kind: 'board', ...progress });
}
