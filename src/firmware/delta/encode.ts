import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib';

import type { DeltaClaims } from '../../update/ports.ts';
import { encodeWindow, FRAME_WINDOW_LOG, MAGIC, MAX_BASE_BYTES, MAX_WINDOW_BYTES } from './container.ts';
import type { DeltaWindow } from './container.ts';
import { matchedParts } from './find-matches.ts';
import { isZstdError } from './rebuild.ts';

const compressFrame = promisify(zstdCompress);
const decompressFrame = promisify(zstdDecompress);

/** The tables hold a whole part of the base. The level's own tables would forget most of it and find nothing there. */
const params = {
  [constants.ZSTD_c_compressionLevel]: 9,
  [constants.ZSTD_c_windowLog]: FRAME_WINDOW_LOG,
  [constants.ZSTD_c_hashLog]: 22,
  [constants.ZSTD_c_chainLog]: 23,
};

export interface DeltaSizes {
  readonly windowBytes?: number;
}

/**
 * Makes the file of a delta piece by piece. The images are entirely in memory, since only a release machine makes
 * deltas.
 */
export async function* encodeDelta(
  base: Buffer,
  result: Buffer,
  { windowBytes = MAX_WINDOW_BYTES }: DeltaSizes = {},
): AsyncGenerator<Buffer, void, undefined> {
  yield MAGIC;
  for (const { bytes, places } of matchedParts(base, result, windowBytes)) {
    yield* await encodeBest(base, bytes, places);
  }
}

export function claimsOf(base: Uint8Array, result: Uint8Array): DeltaClaims {
  const prefixOf = (image: Uint8Array) => ({ sizeBytes: image.byteLength, digest: `sha256:${hash('sha256', image)}` });
  return { base: prefixOf(base), result: prefixOf(result) };
}

/** A copy if one of the places holds the same bytes, else the shortest frame. */
async function encodeBest(base: Buffer, wanted: Buffer, places: readonly number[]): Promise<readonly Buffer[]> {
  for (const baseOffset of places) {
    const same = base.subarray(baseOffset, baseOffset + wanted.byteLength);
    if (!same.equals(wanted)) continue;
    const window = { baseOffset, baseBytes: same.byteLength, baseChecksum: crc32(same), frameBytes: 0 };
    return [encodeWindow({ kind: 'copy', resultBytes: wanted.byteLength, ...window })];
  }
  const parts = new Set([undefined, ...places.map((place) => partAround(base, place, wanted.byteLength))]);
  const frames = await Promise.all([...parts].map(async (from) => frame(base, wanted, from)));
  const { window, bytes } = shortestOf(frames);
  return [encodeWindow(window), bytes];
}

function shortestOf(frames: readonly (Frame | undefined)[]): Frame {
  const found = frames.filter((each) => each !== undefined);
  const [shortest] = found.sort((left, right) => left.bytes.byteLength - right.bytes.byteLength);
  if (shortest === undefined) throw new Error('zstd does not give back what it was given');
  return shortest;
}

interface Frame {
  readonly window: DeltaWindow;
  readonly bytes: Buffer;
}

/** The beginning of the part of the base that surrounds a place. */
function partAround(base: Buffer, place: number, wantedBytes: number): number {
  const before = Math.floor((MAX_BASE_BYTES - wantedBytes) / 2);
  return Math.max(0, Math.min(place - before, base.byteLength - MAX_BASE_BYTES));
}

/**
 * Returns a zstd frame for a window, or undefined if zstd mistakes this part of the base for a dictionary of another
 * kind, so that the frame does not yield the window.
 */
async function frame(base: Buffer, wanted: Buffer, from: number | undefined): Promise<Frame | undefined> {
  const baseOffset = from ?? 0;
  const part = from === undefined ? Buffer.alloc(0) : base.subarray(from, from + MAX_BASE_BYTES);
  const dictionary = part.byteLength > 0 ? { dictionary: part } : {};
  try {
    const bytes = await compressFrame(wanted, { ...dictionary, params, pledgedSrcSize: wanted.byteLength });
    const back = await decompressFrame(bytes, { ...dictionary, maxOutputLength: wanted.byteLength });
    if (!back.equals(wanted)) return undefined;
    const place = { baseOffset, baseBytes: part.byteLength, baseChecksum: crc32(part) };
    const sizes = { resultBytes: wanted.byteLength, frameBytes: bytes.byteLength };
    return { window: { kind: 'frame', ...place, ...sizes }, bytes };
  } catch (error) {
    if (!isZstdError(error)) throw error;
    return undefined;
  }
}
