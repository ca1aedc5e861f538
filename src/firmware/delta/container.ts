import { VerificationError } from '../errors.ts';

/**
 * The file of a delta begins with this text; the windows of the result follow. A window is a record of 28
 * bytes with little-endian numbers and, if its kind has one, a zstd frame.
 */
export const MAGIC = Buffer.from('thing-delta 1\n', 'latin1');

/**
 * The most that is in memory at a time: a window of the result, the part of the base from which it is made, and its
 * frame.
 */
export const MAX_WINDOW_BYTES = 1 * 1024 * 1024;
export const MAX_BASE_BYTES = 2 * 1024 * 1024;
export const MAX_FRAME_BYTES = MAX_WINDOW_BYTES + 64 * 1024;
/** The smallest window, except the last one. It bounds the number of windows for a given size. */
export const MIN_WINDOW_BYTES = 4096;
/** A frame may refer to any place of window and base. */
export const FRAME_WINDOW_LOG = 22;

export const RECORD_BYTES = 28;

/** `copy`: the window equals a part of the base. `frame`: a zstd frame, with a part of the base as its dictionary. */
export interface DeltaWindow {
  readonly kind: 'copy' | 'frame';
  readonly resultBytes: number;
  readonly baseOffset: number;
  /** 0: a frame without a dictionary. */
  readonly baseBytes: number;
  /** CRC-32 of this part of the base. */
  readonly baseChecksum: number;
  readonly frameBytes: number;
}

const numbers = { copy: 1, frame: 2 } as const;

export function encodeWindow(window: DeltaWindow): Buffer {
  const record = Buffer.alloc(RECORD_BYTES);
  record.writeUInt32LE(numbers[window.kind], 0);
  record.writeUInt32LE(window.resultBytes, 4);
  record.writeUInt32LE(window.baseBytes, 8);
  record.writeUInt32LE(window.frameBytes, 12);
  record.writeUInt32LE(window.baseChecksum, 16);
  record.writeBigUInt64LE(BigInt(window.baseOffset), 20);
  return record;
}

/** The bounds of a window, which follow from what is signed. */
export interface WindowBounds {
  /** Bytes of the result that are not rebuilt yet. */
  readonly leftBytes: number;
  readonly baseSizeBytes: number;
}

/**
 * Decodes the record of a window. Throws `delta-malformed` for what is out of bounds, before any memory is allocated
 * for it.
 */
export function decodeWindow(bytes: Uint8Array, { leftBytes, baseSizeBytes }: WindowBounds): DeltaWindow {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, RECORD_BYTES);
  const kind = kindOf(record.readUInt32LE(0));
  const resultBytes = record.readUInt32LE(4);
  const baseBytes = record.readUInt32LE(8);
  const frameBytes = record.readUInt32LE(12);
  const baseChecksum = record.readUInt32LE(16);
  const baseOffset = Number(record.readBigUInt64LE(20));
  if (resultBytes > leftBytes) throw malformed('its windows are longer than the result that was signed');
  if (resultBytes < Math.min(MIN_WINDOW_BYTES, leftBytes) || resultBytes > MAX_WINDOW_BYTES)
    throw malformed(`a window of ${resultBytes} bytes`);
  if (baseBytes > MAX_BASE_BYTES) throw malformed(`a window from ${baseBytes} bytes of the base`);
  if (baseOffset + baseBytes > baseSizeBytes) throw malformed('a window from behind the end of the base');
  const fits = kind === 'copy' ? frameBytes === 0 && baseBytes === resultBytes : frameBytes > 0;
  if (!fits || frameBytes > MAX_FRAME_BYTES) throw malformed(`a window of kind ${kind} with ${frameBytes} bytes`);
  return { kind, resultBytes, baseOffset, baseBytes, baseChecksum, frameBytes };
}

export function malformed(why: string): VerificationError {
  return new VerificationError('delta-malformed', `delta: ${why}`);
}

function kindOf(number: number): DeltaWindow['kind'] {
  if (number === numbers.copy) return 'copy';
  if (number === numbers.frame) return 'frame';
  throw malformed(`a window of kind ${number}`);
}
