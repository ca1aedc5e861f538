import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Checkpoint, FirmwareTransfer } from '../update/ports.ts';
import type { FirmwareRequest } from '../update/ports/incoming.ts';
import { ByteReader } from './byte-reader.ts';
import type { EncodingSetting } from './text/encoding.ts';
import { FirmwareTextDecoder } from './text/firmware-text.ts';

/** After at most this number of bytes of text, other work gets its turn and progress is reported. */
const TURN_BYTES = 256 * 1024;

/** A place in the encoded firmware where another transfer could continue. */
export type ResumePoint = Pick<Checkpoint, 'wire' | 'encoding' | 'carry'>;

export interface StreamSettings extends Pick<FirmwareRequest, 'source' | 'onProgress'> {
  readonly encoding: EncodingSetting;
}

/** One transfer of a firmware image, decoded while it arrives. */
export interface FirmwareStream extends AsyncDisposable {
  /** The bytes of the firmware. They end only after the end of the text was checked. */
  readonly bytes: ByteReader;
  /** True if the bytes continue at the requested place. False if they start at the beginning. */
  readonly isContinued: boolean;
  /** Returns the place up to which `bytes` were read, or undefined if another transfer could not continue there. */
  readonly placeNow: () => ResumePoint | undefined;
}

/** Begins a transfer: at this place if the source still has the same text, else at the beginning. */
export async function openFirmwareStream(
  { source, encoding, onProgress }: StreamSettings,
  from: ResumePoint | undefined,
  signal: AbortSignal,
): Promise<FirmwareStream> {
  const transfer = await source.open(from?.wire, signal);
  const { startOffset } = transfer;
  const isContinued = from !== undefined && startOffset === from.wire.offset;
  assert(isContinued || startOffset === 0, `a transfer that begins at ${startOffset}`);
  const decoder =
    source.form === 'decoded' ? undefined : new FirmwareTextDecoder(isContinued ? positionOf(from) : encoding);
  const totalBytes = decoder === undefined ? transfer.totalBytes : undefined;
  const bytes = new ByteReader(decoded(transfer, decoder, onProgress, signal), 'firmware', totalBytes);
  return {
    bytes,
    isContinued,
    placeNow: () => (decoder?.producedBytes === bytes.offset ? placeOf(transfer, decoder) : undefined),
    [Symbol.asyncDispose]: async () => {
      await transfer[Symbol.asyncDispose](); // first, since this ends a pending read
      await bytes.close();
    },
  };
}

function positionOf({ wire, encoding, carry }: ResumePoint): ConstructorParameters<typeof FirmwareTextDecoder>[0] {
  return { offset: wire.offset, encoding, carry };
}

function placeOf({ validator, totalBytes }: FirmwareTransfer, decoder: FirmwareTextDecoder): ResumePoint | undefined {
  const { position } = decoder;
  if (position === undefined || validator === undefined || totalBytes === undefined) return undefined;
  const { offset, encoding, carry } = position;
  return { wire: { offset, validator, totalBytes }, encoding, carry };
}

async function* decoded(
  transfer: FirmwareTransfer,
  decoder: FirmwareTextDecoder | undefined,
  onProgress: FirmwareRequest['onProgress'],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { totalBytes } = transfer;
  let receivedBytes = transfer.startOffset;
  let toldBytes = receivedBytes;
  for await (const chunk of transfer.chunks) {
    for (let at = 0; at < chunk.length; at += TURN_BYTES) {
      signal.throwIfAborted();
      const part = chunk.subarray(at, at + TURN_BYTES);
      if (decoder === undefined) yield part;
      else yield* decoder.push(part);
      receivedBytes += part.length;
      if (receivedBytes - toldBytes < TURN_BYTES) continue;
      toldBytes = receivedBytes;
      onProgress({ receivedBytes, totalBytes });
      await nextTurn();
    }
  }
  if (decoder !== undefined) yield* decoder.finish();
  onProgress({ receivedBytes, totalBytes });
}
