import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib';

import type { DeltaPromise } from '../../update/ports.ts';
import { encodeWindow, FRAME_WINDOW_LOG, MAGIC, MAX_BASE_BYTES, MAX_WINDOW_BYTES } from './container.ts';
import type { DeltaWindow } from './container.ts';

const compressFrame = promisify(zstdCompress);
const decompressFrame = promisify(zstdDecompress);

/** What file systems move as a whole. */
const BLOCK_BYTES = 4096;
/** How many places of the base are tried for a window. */
const PLACES = 3;
const LEVEL = 19;

export interface DeltaSizes {
  readonly windowBytes?: number;
}

/** The file of a delta, piece by piece, from images that are whole in memory: only a release machine makes one. */
export async function* encodeDelta(
  base: Buffer,
  result: Buffer,
  { windowBytes = MAX_WINDOW_BYTES }: DeltaSizes = {},
): AsyncGenerator<Buffer, void, undefined> {
  const finder = new PlaceFinder(base);
  yield MAGIC;
  for (let at = 0; at < result.byteLength; at += windowBytes) {
    const wanted = result.subarray(at, at + windowBytes);
    yield* await encodeBest(base, wanted, finder.placesFor(wanted, at));
  }
}

export function promiseOf(base: Uint8Array, result: Uint8Array): DeltaPromise {
  const prefixOf = (image: Uint8Array) => ({ sizeBytes: image.byteLength, digest: `sha256:${sha256(image)}` });
  return { base: prefixOf(base), result: prefixOf(result) };
}

function sha256(image: Uint8Array): string {
  return createHash('sha256').update(image).digest('hex');
}

/** A copy where one of the places holds the same; else the shortest of the frames. */
async function encodeBest(base: Buffer, wanted: Buffer, places: readonly number[]): Promise<readonly Buffer[]> {
  for (const baseOffset of places) {
    const same = base.subarray(baseOffset, baseOffset + wanted.byteLength);
    if (!same.equals(wanted)) continue;
    const window = { baseOffset, baseBytes: same.byteLength, baseChecksum: crc32(same), frameBytes: 0 };
    return [encodeWindow({ kind: 'copy', resultBytes: wanted.byteLength, ...window })];
  }
  const parts = new Set([undefined, ...places.map((place) => partAround(base, place, wanted.byteLength))]);
  const frames = await Promise.all([...parts].map(async (from) => frame(base, wanted, from)));
  const found = frames.filter((each) => each !== undefined);
  const [shortest] = found.sort((left, right) => left.bytes.byteLength - right.bytes.byteLength);
  if (shortest === undefined) throw new Error('zstd does not give back what it was given');
  return [encodeWindow(shortest.window), shortest.bytes];
}

interface Frame {
  readonly window: DeltaWindow;
  readonly bytes: Buffer;
}

/** Where it begins; what surrounds the place is part of it. */
function partAround(base: Buffer, place: number, wantedBytes: number): number {
  const before = Math.floor((MAX_BASE_BYTES - wantedBytes) / 2);
  return Math.max(0, Math.min(place - before, base.byteLength - MAX_BASE_BYTES));
}

/** Undefined: zstd takes this part of the base for something else, and does not give back the window. */
async function frame(base: Buffer, wanted: Buffer, from: number | undefined): Promise<Frame | undefined> {
  const baseOffset = from ?? 0;
  const part = from === undefined ? Buffer.alloc(0) : base.subarray(from, from + MAX_BASE_BYTES);
  const dictionary = part.byteLength > 0 ? { dictionary: part } : {};
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_windowLog]: FRAME_WINDOW_LOG };
  try {
    const bytes = await compressFrame(wanted, { ...dictionary, params });
    const back = await decompressFrame(bytes, { ...dictionary, maxOutputLength: wanted.byteLength });
    if (!back.equals(wanted)) return undefined;
    const place = { baseOffset, baseBytes: part.byteLength, baseChecksum: crc32(part) };
    const sizes = { resultBytes: wanted.byteLength, frameBytes: bytes.byteLength };
    return { window: { kind: 'frame', ...place, ...sizes }, bytes };
  } catch {
    return undefined;
  }
}

/** Finds where in the base most of a window stands, by whole blocks, though what is before it grew or shrank. */
class PlaceFinder {
  readonly #base: Buffer;
  readonly #blocks = new Map<string, number>();

  constructor(base: Buffer) {
    this.#base = base;
    for (let at = 0; at + BLOCK_BYTES <= base.byteLength; at += BLOCK_BYTES) {
      const key = keyOf(base.subarray(at, at + BLOCK_BYTES));
      this.#blocks.set(key, this.#blocks.has(key) ? AMBIGUOUS : at);
    }
  }

  /** The same place first, then those that most blocks vote for. */
  placesFor(wanted: Buffer, at: number): readonly number[] {
    const votes = new Map<number, number>();
    for (let from = 0; from + BLOCK_BYTES <= wanted.byteLength; from += BLOCK_BYTES) {
      const found = this.#blocks.get(keyOf(wanted.subarray(from, from + BLOCK_BYTES))) ?? AMBIGUOUS;
      if (found === AMBIGUOUS) continue;
      const place = Math.max(0, found - from);
      votes.set(place, (votes.get(place) ?? 0) + 1);
    }
    const best = [...votes].sort(([, left], [, right]) => right - left).map(([place]) => place);
    const same = Math.min(at, Math.max(0, this.#base.byteLength - wanted.byteLength));
    return [...new Set([same, ...best])].slice(0, PLACES);
  }
}

/** Stands in the base more than once, such as zeros: tells no place. */
const AMBIGUOUS = -1;

function keyOf(block: Buffer): string {
  return createHash('sha1').update(block).digest('base64');
}
