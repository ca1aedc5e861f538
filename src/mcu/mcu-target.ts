import assert from 'node:assert';

import { requirePort } from '../serial/port-holders.ts';
import { undefinedIf } from '../system/errors.ts';
import type { BoardPayload, BoardProgress, ImageClaims, McuTarget, Verified, VouchForKept } from '../update/ports.ts';
import type { Board } from './connection.ts';
import { McuError } from './errors.ts';
import { imageToRestore, payloadOn } from './flash/board-store.ts';
import type { BoardStore, FlashedImage, KeptImage, WritingMark } from './flash/board-store.ts';
import { flash } from './flash/flash.ts';
import type { FlashReport, FlashRequest } from './flash/flash.ts';
import { openPayloadFile } from './flash/payload-file.ts';
import type { ReadBoardImage } from './images/board-image.ts';
import { makeImage } from './images/image.ts';
import type { Image } from './images/image.ts';
import { claimsOf } from './images/read-image.ts';

/** A board, its folder in the state directory, and the reader of its images. */
export interface McuTargetDeps {
  readonly board: Board;
  /** The path of its port. */
  readonly port: string;
  readonly store: BoardStore;
  readonly readImage: ReadBoardImage;
}

/** The target of a board in an update. */
export function createMcuTarget({ board, port, store, readImage: read }: McuTargetDeps): McuTarget {
  const accept =
    (fileName: string) =>
    async (file: Uint8Array): Promise<ImageClaims> => {
      await read(file, fileName);
      await store.setPayloadAside();
      return claimsOf(file);
    };
  return {
    kind: 'mcu',
    name: board.name,
    port,
    openFile: async (opening) => {
      await requirePort(board.name, port); // its absence would cost two reboots: into the trial, and back
      return openPayloadFile(store.payloadPath, opening, accept(opening.payload.fileName));
    },
    digestOf: async (_sizeBytes, _signal, digest) => ((await store.payload(digest)) ? digest : 'nothing'),
    flash: async (payload, evidence, signal) => {
      const bytes = await store.payload(payload.digest);
      if (bytes === undefined) {
        throw new McuError('payload-damaged', `${board.name}: ${store.payloadPath} is not the staged file`);
      }
      await flashImage({ board, store, image: await read(bytes), payload, evidence, name: payload.digest }, signal);
    },
    restore: async (payload, vouch, signal) => {
      const kept = await store.kept();
      if (kept?.payload !== payload.digest || !(await mayBeWritten(store, kept))) return;
      const job = { board, store, onProgress: payload.onProgress, vouch };
      await restoreImage(job, kept, signal, await heldBefore(store, kept));
    },
    holds: async (digest) => (await store.writing()) === undefined && payloadOn(await store.flashed()) === digest,
    keeps: async (digest) => {
      const kept = await intactBackup(store);
      return {
        payload: (await store.payload(digest)) !== undefined,
        before: kept?.payload === digest && kept.image !== undefined,
      };
    },
  };
}

/**
 * True if the board may hold the payload of this backup, or a part of it. It is marked before its first byte changes.
 * Without a record of the board, it may.
 */
async function mayBeWritten(store: BoardStore, { payload, image }: KeptImage): Promise<boolean> {
  if ((await store.writing()) !== undefined) return true;
  const flashed = await store.flashed();
  return flashed === undefined ? image !== undefined : payloadOn(flashed) === payload;
}

/** Work on a board: with its folder, and with a listener for progress. */
export interface BoardJob {
  readonly board: Board;
  readonly store: BoardStore;
  readonly onProgress: (progress: BoardProgress) => void;
  /** Makes the evidence for an image that was kept in the folder. */
  readonly vouch: VouchForKept;
}

export interface FlashJob {
  readonly board: Board;
  readonly store: BoardStore;
  readonly image: Image;
  readonly payload: BoardPayload;
  /** Evidence of the payload. */
  readonly evidence: Verified;
  /** The name that people see. */
  readonly name: string;
  /** The name of the backup: by default the digest of an update's payload, which alone restores it. */
  readonly keepAs?: string;
  /** false: what the board holds is not read in order to be kept; only what is remembered of it is kept. */
  readonly keep?: false | undefined;
}

/** The name that is shown for an image that was put back. */
const putBack = 'put back';

/**
 * Flashes an image. The board's previous content is saved first: read from the board if the protocol can, else from the
 * records. It is saved only once for a payload, since afterwards the board may hold half of the new program. A board
 * whose last write was interrupted is not read either; its content from before that write stays saved.
 */
export async function flashImage(
  { board, store, image, payload, evidence, name, keepAs = payload.digest, keep: mayKeep }: FlashJob,
  signal: AbortSignal,
): Promise<FlashReport> {
  const { digest, onProgress } = payload;
  const flashed = await store.flashed();
  const expected = flashed?.image;
  const { mayRead, over } = await backUpKnownImage(store, keepAs, flashed);
  const keep: FlashRequest['keep'] = async (previous, chip, changed) => {
    // the memory around a program that is only remembered may be blank
    const found =
      previous === undefined ? { image: expected, chip: flashed?.chip } : { image: previous, chip, changed };
    await store.keep({ payload: keepAs, read: true, over, ...found });
  };
  const what = { image, digest, evidence, name, payload: keepAs };
  const isKept = mayRead && mayKeep !== false;
  return write({ board, store, onProgress }, { ...what, expected, keep: isKept ? keep : undefined, begun: 1 }, signal);
}

/**
 * Keeps what is remembered, and returns the payload on the board. `mayRead` is false if what is already kept is better
 * than anything that could be read from the board now.
 */
async function backUpKnownImage(
  store: BoardStore,
  payload: string,
  flashed: FlashedImage | undefined,
): Promise<{ readonly mayRead: boolean; readonly over: string | undefined }> {
  const kept = await intactBackup(store);
  const wasCut = (await store.writing()) !== undefined;
  const onBoard = payloadOn(flashed);
  if (kept?.payload === payload) return { mayRead: !wasCut && !mayHold(payload, onBoard, kept), over: kept.over };
  if (!wasCut && onBoard !== undefined && kept?.payload === onBoard) await store.setBackupAside();
  const before = wasCut ? ofCutWrite(kept, flashed) : { ...rememberedOf(flashed), over: onBoard };
  await store.keep({ payload, ...before });
  return { mayRead: !wasCut, over: before.over };
}

/** Returns the content from before an interrupted write. */
function ofCutWrite(kept: KeptImage | undefined, flashed: FlashedImage | undefined): Omit<KeptImage, 'payload'> {
  const { read, image, chip } = kept?.image === undefined ? rememberedOf(flashed) : kept;
  return { read, image, chip, over: kept?.over };
}

/** True if the board may hold the payload already, so that its content is not the one from before. */
function mayHold(payload: string, onBoard: string | undefined, kept: KeptImage): boolean {
  return onBoard === payload || (onBoard === undefined && kept.read);
}

function rememberedOf(flashed: FlashedImage | undefined): Pick<KeptImage, 'read' | 'image' | 'chip'> {
  return { read: false, image: flashed?.image, chip: flashed?.chip };
}

/** Returns the backup, or undefined if there is none, or it is damaged. */
export async function intactBackup(store: BoardStore): Promise<KeptImage | undefined> {
  return undefinedIf((error) => error instanceof McuError, store.kept());
}

/**
 * Restores the backup. Throws if there is none, or the board was blank: it keeps the new program. `before`: a board
 * without a trace of the interrupted write is left alone.
 */
export async function restoreImage(
  job: BoardJob,
  kept: KeptImage | undefined,
  signal: AbortSignal,
  before?: readonly Image[],
): Promise<FlashReport> {
  const image = kept && imageToRestore(kept);
  if (image !== undefined) {
    const what = { ...vouchedFor(image, job), name: putBack, payload: kept?.over, chip: kept?.chip, before };
    return write(job, { ...what, begun: 1, toStay: true }, signal);
  }
  throw new McuError(
    'board-not-restorable',
    `${job.board.name}: its previous program is unknown, so it keeps the new image`,
  );
}

/** An interrupted write is finished after at most this number of attempts; then the previous program is restored. */
const maxFinishes = 5;
/** After this number of attempts the board is left to an operator. */
const maxHeals = 10;

/** True if the agent no longer tries to repair the board: it failed repeatedly, or no image for it is known. */
export function needsOperator(writing: WritingMark, backup: KeptImage | undefined): boolean {
  return writing === 'unreadable' ? backup?.image === undefined : writing.begun >= maxHeals;
}

/**
 * Guarantee `half-board`: repairs a board whose write was interrupted. Finishes the write or, if that fails repeatedly,
 * restores the previous program. Returns the name of the running image, or undefined if there was nothing to repair.
 */
export async function recoverBoard(job: BoardJob, signal: AbortSignal): Promise<string | undefined> {
  const writing = await job.store.writing();
  if (writing === undefined) return undefined;
  const backup = await intactBackup(job.store);
  const undone = { name: putBack, image: backup && imageToRestore(backup), payload: backup?.over, chip: backup?.chip };
  const { begun, ...unfinished } = writing === 'unreadable' ? { begun: 1, ...undone } : writing;
  const wanted = begun >= maxFinishes && undone.image !== undefined ? undone : unfinished;
  if (wanted.image === undefined || needsOperator(writing, backup)) {
    throw new McuError(
      'board-half-written',
      `${job.board.name}: a write was interrupted, and could not be finished automatically`,
    );
  }
  const { name, payload, chip } = wanted;
  const toStay = name === putBack ? true : undefined;
  const what = { ...vouchedFor(wanted.image, job), name, payload, chip, before: await heldBefore(job.store, backup) };
  await write(job, { ...what, begun: begun + 1, toStay }, signal);
  return name;
}

/**
 * Returns the programs of which a board may hold parts after an interrupted write. Undefined if there was none, or if
 * the program before it was not read.
 */
async function heldBefore(store: BoardStore, backup: KeptImage | undefined): Promise<readonly Image[] | undefined> {
  const writing = await store.writing();
  if (writing === undefined || backup?.read !== true) return undefined;
  const written = writing === 'unreadable' ? undefined : writing.image;
  return [backup.image, (await store.flashed())?.image, written].filter((image) => image !== undefined);
}

/** An image that was kept, with the evidence that it has not changed. */
function vouchedFor(image: Image, { board, vouch }: BoardJob): Pick<Write, 'image' | 'digest' | 'evidence'> {
  const { digest, format, segments } = image;
  const evidence = vouch({ target: board.name, recorded: digest, found: makeImage(format, segments).digest });
  return { image, digest, evidence };
}

interface Write extends Pick<FlashRequest, 'image' | 'chip' | 'before' | 'expected' | 'keep' | 'toStay'> {
  /** The digest of the payload or file from which the image was read, or of the image itself. The evidence names it. */
  readonly digest: string;
  readonly evidence: Verified;
  readonly name: string;
  /** The payload, or other word, whose program the board holds then. */
  readonly payload: string | undefined;
  readonly begun: number;
}

/**
 * Invariant 1: writes a board with the image named by the evidence. The fact that the board is being written is durable
 * before its first byte changes.
 */
async function write(
  job: Omit<BoardJob, 'vouch'>,
  { digest, evidence, name, payload, begun, ...request }: Write,
  signal: AbortSignal,
): Promise<FlashReport> {
  const { board, store } = job;
  const { image } = request;
  assert(evidence.digest === digest, `${board.name}: the evidence is of ${evidence.digest}, and not of ${digest}`);
  const now = (): string => new Date(board.clock.nowMs()).toISOString();
  const beforeWriting = async (chip: string): Promise<void> =>
    store.beginWriting({ name, payload, chip, at: now(), begun, image });
  const onProgress: FlashRequest['onProgress'] = ({ phase, ...progress }) =>
    job.onProgress({ board: board.name, step: phase, ...progress });
  const report = await flash({ ...request, beforeWriting, onProgress }, board, signal);
  const { chip, imageDigest, known, boots, repeated, roundTripMs } = report;
  const facts = { imageDigest, name, payload, at: now(), known, boots, attempts: repeated + 1, roundTripMs };
  await store.remember({ chip: chip.name, ...facts, image });
  return report;
}
