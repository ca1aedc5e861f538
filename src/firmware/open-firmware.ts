import assert from 'node:assert/strict';

import { mapError } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Checkpoint, FirmwareHeader } from '../update/ports.ts';
import type { FirmwareRequest, IncomingFirmware, IncomingPayload, OpenFirmware } from '../update/ports/incoming.ts';
import { readArtifact, resumeArtifact } from './artifact/read-artifact.ts';
import type { ArtifactDeps } from './artifact/read-artifact.ts';
import type { TrustSettings } from './artifact/trust.ts';
import { ByteReader } from './byte-reader.ts';
import { Checkpoints } from './checkpoints.ts';
import type { CheckpointDistance } from './checkpoints.ts';
import { decompress, detectCompression, MAGIC_BYTES } from './compression/compression.ts';
import { FirmwareError, FirmwareFormatError, staleCheckpoint, VerificationError } from './errors.ts';
import { openFirmwareStream } from './firmware-stream.ts';
import type { FirmwareStream } from './firmware-stream.ts';
import { readImage } from './image.ts';
import { withMappedErrors } from './incoming.ts';
import type { ReadFirmware } from './incoming.ts';
import type { EncodingSetting } from './text/encoding.ts';

export interface FirmwareSettings {
  readonly encoding: EncodingSetting;
  readonly trust: TrustSettings;
  /**
   * Compared with the `device_type` of the artifact. If omitted, the artifact is only described, so any device type
   * fits.
   */
  readonly deviceType: string | undefined;
  readonly checkpointDistance?: CheckpointDistance | undefined;
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined;
}

const TAR_BLOCK_BYTES = 512;

/**
 * Turns the encoded text into verified payloads. Throws FirmwareFormatError (exit 76) for unreadable input,
 * VerificationError (exit 77) for a release that must not be installed, and the errors of the source.
 */
export function firmwareOpener(settings: FirmwareSettings): OpenFirmware {
  return async (request, signal) => {
    const checkpoint = usableCheckpoint(request, settings);
    const told = request.source.form === 'decoded' ? asOfFile : checkpoint && asOfCheckpoint;
    if (told === undefined) return open(settings, request, checkpoint, signal);
    const firmware = await mapError(open(settings, request, checkpoint, signal), told);
    return { ...firmware, payloads: withMappedErrors(firmware.payloads, told) };
  };
}

/** True if a checkpoint can be continued. A checkpoint with another encoding is older than the operator's setting. */
function usableCheckpoint({ source, resume }: FirmwareRequest, { encoding }: FirmwareSettings): Checkpoint | undefined {
  if (source.form !== 'json-string') return undefined;
  return encoding === 'auto' || encoding === resume?.encoding ? resume : undefined;
}

/**
 * Returns the error for a file. A truncated transfer may have been interrupted, but a file stays the same however often
 * it is read.
 */
function asOfFile(error: unknown): unknown {
  if (!(error instanceof FirmwareFormatError) || error.remedy !== 'retry') return error;
  return new FirmwareError('file-truncated', `the file is not whole: ${error.message}`, { cause: error });
}

/**
 * Returns the error for a firmware image that is continued from a checkpoint. The fault may be in the data kept between
 * the two transfers, so only an image that was read from its beginning is refused.
 */
function asOfCheckpoint(error: unknown): unknown {
  const isVerdict = error instanceof VerificationError || error instanceof FirmwareFormatError;
  return isVerdict ? staleCheckpoint(error.message) : error;
}

async function open(
  settings: FirmwareSettings,
  request: FirmwareRequest,
  checkpoint: Checkpoint | undefined,
  signal: AbortSignal,
): Promise<IncomingFirmware> {
  const { source, onProgress, expected } = request;
  await using opened = new AsyncDisposableStack();
  const { encoding } = settings;
  const stream = opened.use(await openFirmwareStream({ source, onProgress, encoding }, checkpoint, signal));
  const { header, payloads } = await readStream(stream, { settings, request, checkpoint, opened }, signal);
  requireSame(header, expected);
  const streams = opened.move();
  return { header, payloads, [Symbol.asyncDispose]: async () => streams.disposeAsync() };
}

interface Reading {
  readonly settings: FirmwareSettings;
  readonly request: FirmwareRequest;
  readonly checkpoint: Checkpoint | undefined;
  /** Disposes what the reading opens. */
  readonly opened: AsyncDisposableStack;
}

async function readStream(
  { bytes, placeNow, isContinued }: FirmwareStream,
  { settings, request, checkpoint, opened }: Reading,
  signal: AbortSignal,
): Promise<ReadFirmware> {
  const { checkpointDistance: distance, clock } = settings;
  const { onCheckpoint, onSignedName, installedProvides } = request;
  const depsWith = (placeOfCheckpoint: typeof placeNow): ArtifactDeps => {
    const checkpoints = new Checkpoints({ onCheckpoint, placeNow: placeOfCheckpoint, distance, clock });
    return { ...settings, installedProvides, onSignedName, decompress, checkpoints };
  };
  if (isContinued && checkpoint !== undefined) return resumeStream(bytes, checkpoint, depsWith(placeNow), signal);

  const compression = detectCompression(await bytes.peek(MAGIC_BYTES));
  if (compression === 'none') return readContent(bytes, depsWith(placeNow), signal);
  const unpacked = opened.use(new ByteReader(decompress(compression, bytes.rest(), signal), 'firmware'));
  const withoutCheckpoints = depsWith(() => undefined);
  return readContent(unpacked, withoutCheckpoints, signal);
}

async function resumeStream(
  bytes: ByteReader,
  { image, artifact }: Checkpoint,
  deps: ArtifactDeps,
  signal: AbortSignal,
): Promise<ReadFirmware> {
  if (artifact === undefined) return readImage(bytes, deps, image);
  return toEnd(bytes, await resumeArtifact(bytes, { place: artifact, image }, deps, signal));
}

async function readContent(content: ByteReader, deps: ArtifactDeps, signal: AbortSignal): Promise<ReadFirmware> {
  const firmware = isArchive(await content.peek(TAR_BLOCK_BYTES))
    ? await readArtifact(content, deps, signal)
    : await readImage(content, deps);
  return toEnd(content, firmware);
}

function toEnd(content: ByteReader, { header, payloads }: ReadFirmware): ReadFirmware {
  async function* whole(): AsyncGenerator<IncomingPayload, void, undefined> {
    yield* payloads;
    assert(await content.atEnd(), 'staged, but not read completely');
  }
  return { header, payloads: whole() };
}

/**
 * True if this is an archive. An artifact is a tar archive whose first member is `version` (Mender Artifact format
 * version 3); any other archive counts as a broken artifact, since it cannot be an image. POSIX.1-1988 ustar: name at
 * 0, magic at 257.
 */
function isArchive(block: Uint8Array): boolean {
  const text = Buffer.from(block).toString('latin1');
  return text.startsWith('version\0') || text.slice(257, 262) === 'ustar';
}

/**
 * Lets a second attempt pass only for the firmware that was opened first; if the header differs, the text has changed.
 */
function requireSame(header: FirmwareHeader, expected: FirmwareHeader | undefined): void {
  if (expected === undefined || (expected.kind === header.kind && expected.digest === header.digest)) return;
  throw new FirmwareError('firmware-changed', 'the firmware changed while it was being staged');
}
