import { createHash } from 'node:crypto';
import { constants, crc32, createZstdDecompress } from 'node:zlib';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import type { BaseReader, DeltaClaims } from '../../update/ports.ts';
import { ByteReader } from '../byte-reader.ts';
import { FirmwareError, VerificationError } from '../errors.ts';
import { decodeWindow, FRAME_WINDOW_LOG, MAGIC, malformed, RECORD_BYTES } from './container.ts';
import type { DeltaWindow } from './container.ts';

const CHUNK_BYTES = 32 * 1024;

export interface DeltaFile {
  readonly name: string;
  /** The digest of the file itself as the manifest states it: `sha256:` and hex. */
  readonly digest: string;
  readonly promise: DeltaClaims;
  /** Notified of the start and the end of windows. */
  readonly watch?: WindowWatch | undefined;
  /** The place to continue at. If omitted, the beginning. */
  readonly resumed?: ResumedDelta | undefined;
}

export interface WindowWatch {
  readonly windowBegins: () => void;
  /**
   * Called before the last bytes of a window are yielded; `usedBytes` of the content were used up to the window's end.
   */
  readonly windowEnds: (usedBytes: number) => void;
}

/** A place behind a window that was rebuilt before. */
export interface ResumedDelta {
  /** The bytes of the result that exist. */
  readonly resultBytes: number;
  /** The bytes of the content before the place. */
  readonly skipBytes: number;
}

/**
 * Guarantee `delta`: rebuilds the result of a delta, window by window. A chunk is valid until the next one is requested.
 * Each part of the base is compared with its checksum when it is read (`delta-base-mismatch`). Unless it was resumed,
 * the file itself is compared with the manifest, and a difference is a VerificationError at the end. The caller must
 * verify the result.
 */
export async function* rebuild(
  content: AsyncIterable<Uint8Array>,
  { name, digest, promise, watch, resumed }: DeltaFile,
  base: BaseReader,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const hash = createHash('sha256');
  await using file = new ByteReader(hashed(content, hash), name);
  await (resumed === undefined ? readBeginning(file) : passOver(file, resumed.skipBytes));
  const baseSizeBytes = promise.base.sizeBytes;
  for (let leftBytes = promise.result.sizeBytes - (resumed?.resultBytes ?? 0); leftBytes > 0;) {
    const window = decodeWindow(await file.read(RECORD_BYTES), { leftBytes, baseSizeBytes });
    signal.throwIfAborted();
    const part = await readBase(window, base, signal);
    const frame = await file.read(window.frameBytes);
    const chunks = window.kind === 'copy' ? [part] : unpack(frame, window, part);
    yield* watch === undefined ? chunks : watched(chunks, window.resultBytes, watch, file.offset);
    leftBytes -= window.resultBytes;
  }
  if (!(await file.atEnd())) throw malformed('something stands behind its last window');
  if (resumed !== undefined || `sha256:${hash.digest('hex')}` === digest) return;
  throw new VerificationError('digest-mismatch', `artifact: payload ${name} is not what the manifest promises`);
}

async function* watched(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  resultBytes: number,
  watch: WindowWatch,
  usedBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  watch.windowBegins();
  let givenBytes = 0;
  for await (const chunk of chunks) {
    givenBytes += chunk.byteLength;
    if (givenBytes === resultBytes) watch.windowEnds(usedBytes);
    yield chunk;
  }
}

async function readBeginning(file: ByteReader): Promise<void> {
  if (!MAGIC.equals(await file.peek(MAGIC.length))) throw malformed('it does not begin as one of this version');
  await file.read(MAGIC.length);
}

async function passOver(file: ByteReader, sizeBytes: number): Promise<void> {
  const passed = file.stream(sizeBytes);
  while ((await passed.next()).done !== true);
}

async function readBase(window: DeltaWindow, base: BaseReader, signal: AbortSignal): Promise<Uint8Array> {
  const { baseOffset, baseBytes, baseChecksum } = window;
  const part = await base.read(baseOffset, baseBytes, signal);
  if (crc32(part) === baseChecksum) return part;
  const range = `bytes ${baseOffset} to ${baseOffset + baseBytes - 1}`;
  throw wrongBase(`${range} of the running image are not those from which the delta was made`);
}

/**
 * Decompresses a frame in chunks. Buffers of a whole window would be garbage that is collected only after 64 MiB of it.
 */
async function* unpack(
  frame: Uint8Array,
  { resultBytes, baseBytes }: DeltaWindow,
  part: Uint8Array,
): AsyncGenerator<Uint8Array, void, undefined> {
  const zstd = createZstdDecompress({
    ...(baseBytes > 0 && { dictionary: part }),
    chunkSize: CHUNK_BYTES,
    params: { [constants.ZSTD_d_windowLogMax]: FRAME_WINDOW_LOG },
  });
  zstd.end(frame);
  let unpackedBytes = 0;
  try {
    for await (const chunk of zstd as AsyncIterable<Buffer>) {
      unpackedBytes += chunk.byteLength;
      if (unpackedBytes > resultBytes) break;
      yield chunk;
    }
  } catch (error) {
    if (!isZstdError(error)) throw error;
    throw malformed(`a window cannot be unpacked: ${describeError(error)}`);
  }
  if (unpackedBytes !== resultBytes)
    throw malformed(`a window cannot be unpacked: it has not the ${resultBytes} bytes that it names`);
}

/** True if zstd refuses a frame. All other errors are not the frame's fault. */
export function isZstdError(error: unknown): boolean {
  return /^(?:Z(?:STD)?_|ERR_BUFFER_TOO_LARGE)/.test(systemErrorCode(error) ?? '');
}

async function* hashed(
  content: AsyncIterable<Uint8Array>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of content) {
    hash.update(chunk);
    yield chunk;
  }
}

/**
 * Returns the error of a delta that needs another base. The next update check then requests the whole image, or the
 * delta that fits.
 */
export function wrongBase(why: string): FirmwareError {
  return new FirmwareError('delta-base-mismatch', `the delta does not fit the running image: ${why}`);
}
