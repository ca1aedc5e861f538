import type { McuTargetSettings as BoardSettings } from '../config/config.ts';
import type { BoardPayload, BoardProgress, McuTarget, Verified } from '../update/ports.ts';
import type { Board } from './connection.ts';
import { createBoard } from './create-board.ts';
import type { BoardSurroundings } from './create-board.ts';
import { McuError } from './errors.ts';
import { BoardStore, payloadDigest } from './flash/board-store.ts';
import type { FlashedImage, KeptImage } from './flash/board-store.ts';
import { flash } from './flash/flash.ts';
import type { FlashProgress, FlashReport } from './flash/flash.ts';
import { openPayloadFile } from './flash/payload-file.ts';
import type { Image } from './images/image.ts';
import { readImage } from './images/read-image.ts';
import { loadMcubootKey } from './mcuboot-key.ts';

/** A microcontroller, its folder in the state directory, and how its images are read. */
export interface McuTargetParts {
  readonly board: Board;
  readonly store: BoardStore;
  /** Refuses with a McuError what is no image for this target. */
  readonly readImage: (file: Uint8Array) => Promise<Image>;
}

export function mcuTargetParts(settings: BoardSettings, directory: string, around: BoardSurroundings): McuTargetParts {
  const { address, mcubootKeyFile } = settings;
  return {
    board: createBoard(settings, around),
    store: new BoardStore(directory),
    readImage: async (file) => {
      const mcubootKey = mcubootKeyFile === undefined ? undefined : await loadMcubootKey(mcubootKeyFile);
      return readImage(file, { address, mcubootKey });
    },
  };
}

/** The place of a microcontroller in an update, on the flasher of this room. */
export function createMcuTarget({ board, store, readImage: read }: McuTargetParts): McuTarget {
  return {
    kind: 'mcu',
    name: board.name,
    openFile: async (opening) => openPayloadFile(store.payloadPath, opening, read),
    digestOf: async (sizeBytes) => payloadDigest((await store.payload()).subarray(0, sizeBytes)),
    flash: async (payload, _evidence: Verified, signal) => {
      const bytes = await store.payload();
      if (payloadDigest(bytes) !== payload.digest) {
        throw new McuError('payload-damaged', `${board.name}: ${store.payloadPath} is not what was staged`);
      }
      await flashImage({ board, store, image: await read(bytes), payload, name: payload.digest }, signal);
    },
    restore: async (payload, signal) => {
      const kept = await store.kept();
      if (kept?.payload !== payload.digest) return;
      await restoreImage({ board, store, onProgress: payload.onProgress }, kept.image, signal);
    },
    keeps: async (digest) => {
      const kept = await keptUndamaged(store);
      return {
        payload: await store.holdsPayload(digest),
        before: kept?.payload === digest && kept.image !== undefined,
      };
    },
  };
}

export interface FlashJob {
  readonly board: Board;
  readonly store: BoardStore;
  readonly image: Image;
  readonly payload: BoardPayload;
  /** What people call it. */
  readonly name: string;
}

/**
 * Flashes an image. What the board held is kept first: read from it where the protocol can, else as it is remembered.
 * Once the payload has touched the board, nothing is kept again: it may be half the new one by then.
 */
export async function flashImage({ board, store, image, payload, name }: FlashJob, signal: AbortSignal): Promise<void> {
  const before = await store.flashed();
  const kept = await keptUndamaged(store);
  const keptAlready = kept?.payload === payload.digest && kept.read;
  if (kept?.payload !== payload.digest) {
    await store.keep({ payload: payload.digest, read: false, image: before?.image });
  }
  const keep = async (previous: Image | undefined): Promise<void> =>
    store.keep({ payload: payload.digest, read: true, image: previous ?? before?.image });
  const onProgress = progressOf(board.name, payload.onProgress);
  const report = await flash(
    { image, expected: before?.image, keep: keptAlready ? undefined : keep, onProgress },
    board,
    signal,
  );
  await store.remember(factsOf(report, image, name, board));
}

async function keptUndamaged(store: BoardStore): Promise<KeptImage | undefined> {
  try {
    return await store.kept();
  } catch (error) {
    if (error instanceof McuError) return undefined;
    throw error;
  }
}

/** Puts back what was kept. Where nothing was, or the board was blank, it stays as it is. */
export async function restoreImage(
  { board, store, onProgress }: RestoreJob,
  image: Image | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (image === undefined) {
    board.log.warn({ board: board.name }, 'nothing is known of what the board held before: it stays as it is');
    return;
  }
  const report = await flash({ image, onProgress: progressOf(board.name, onProgress) }, board, signal);
  await store.remember(factsOf(report, image, 'put back', board));
}

export interface RestoreJob {
  readonly board: Board;
  readonly store: BoardStore;
  readonly onProgress: (progress: BoardProgress) => void;
}

function factsOf(report: FlashReport, image: Image, name: string, { clock }: Board): FlashedImage {
  const { chip, imageDigest, repeated, roundTripMs } = report;
  const at = new Date(clock.nowMs()).toISOString();
  return { chip: chip.name, imageDigest, name, at, attempts: repeated + 1, roundTripMs, image };
}

function progressOf(board: string, tell: (progress: BoardProgress) => void): (progress: FlashProgress) => void {
  return ({ phase, doneBytes, totalBytes }) => tell({ board, step: phase, doneBytes, totalBytes });
}
