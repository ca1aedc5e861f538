import assert from 'node:assert/strict';

import { AgentError } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Checkpoint, FirmwareHeader, StagedFirmware, StageFirmware, StagingRequest } from '../update/ports.ts';
import { readArtifact, resumeArtifact } from './artifact/read-artifact.ts';
import type { TrustSettings } from './artifact/trust.ts';
import { ByteReader } from './byte-reader.ts';
import { Checkpoints } from './checkpoints.ts';
import type { CheckpointDistance } from './checkpoints.ts';
import { decompress, detectCompression, MAGIC_BYTES } from './compression/compression.ts';
import { FirmwareError, FirmwareFormatError, VerificationError } from './errors.ts';
import { openFirmwareStream } from './firmware-stream.ts';
import { stageImage } from './image.ts';
import type { EncodingSetting } from './text/encoding.ts';

export interface FirmwareSettings {
  readonly encoding: EncodingSetting;
  readonly trust: TrustSettings;
  /**
   * Compared with the `device_type` of the artifact; undefined: the artifact is only described, so any device type
   * fits.
   */
  readonly deviceType: string | undefined;
  readonly checkpointDistance?: CheckpointDistance | undefined;
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined;
}

const TAR_BLOCK_BYTES = 512;

/**
 * Turns the encoded text into verified payload bytes in their places. Throws FirmwareFormatError (exit 76) for what
 * cannot be read, VerificationError (exit 77) for what must not be installed, and the errors of the source and the
 * places.
 */
export function createStageFirmware(settings: FirmwareSettings): StageFirmware {
  return async (asked, signal) => {
    try {
      return await stageOrStartOver(settings, { ...asked, accept: once(asked.accept) }, signal);
    } catch (error) {
      throw asked.source.form === 'decoded' ? asOfFile(error) : error;
    }
  };
}

/**
 * The error for a file. A text that ends too early may have been cut on its way, but a file stays the same however
 * often it is read.
 */
function asOfFile(error: unknown): unknown {
  if (!(error instanceof FirmwareFormatError) || error.remedy !== 'retry') return error;
  return new FirmwareError('file-truncated', `the file is not whole: ${error.message}`, { cause: error });
}

async function stageOrStartOver(
  settings: FirmwareSettings,
  request: StagingRequest,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const { resume, onCheckpoint } = request;
  if (resume !== undefined && isUsable(resume, request, settings)) {
    try {
      return await stage(settings, request, resume, signal);
    } catch (error) {
      if (!isWorthStartingOver(error)) throw error;
      await onCheckpoint?.(undefined);
    }
  }
  return stage(settings, request, undefined, signal);
}

/**
 * Whether a failed continuation is worth a start from the beginning. The fault may lie in what was kept between the two
 * transfers, so only a firmware that was read from its beginning is judged.
 */
function isWorthStartingOver(error: unknown): boolean {
  if (error instanceof VerificationError || error instanceof FirmwareFormatError) return true;
  return error instanceof AgentError && STALE_CODES.has(error.code);
}

const STALE_CODES: ReadonlySet<string> = new Set(['checkpoint-stale', 'payload-stale', 'delta-base']);

type Staging = FirmwareSettings & { readonly request: StagingRequest; readonly checkpoints: Checkpoints };

async function stage(
  settings: FirmwareSettings,
  request: StagingRequest,
  checkpoint: Checkpoint | undefined,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const { source, onProgress, onCheckpoint } = request;
  const { encoding, checkpointDistance: distance, clock } = settings;
  await using stream = await openFirmwareStream({ source, onProgress, encoding }, checkpoint, signal);
  const { bytes, place } = stream;
  const stagingAt = (where: typeof place): Staging => {
    return { ...settings, request, checkpoints: new Checkpoints({ onCheckpoint, place: where, distance, clock }) };
  };
  if (stream.isContinued && checkpoint !== undefined) return await goOn(bytes, checkpoint, stagingAt(place), signal);

  const compression = detectCompression(await bytes.peek(MAGIC_BYTES));
  if (compression === 'none') return await stageContent(bytes, stagingAt(place), signal);
  await using unpacked = new ByteReader(decompress(compression, bytes.rest(), signal), 'firmware');
  return await stageContent(
    unpacked,
    stagingAt(() => undefined),
    signal,
  );
}

async function goOn(
  bytes: ByteReader,
  { image, artifact: place }: Checkpoint,
  staging: Staging,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  if (place === undefined) return stageImage(bytes, { ...staging, resumeAt: image }, signal);
  return toEnd(bytes, await resumeArtifact(bytes, { place, image }, { ...staging, decompress }, signal));
}

async function stageContent(content: ByteReader, staging: Staging, signal: AbortSignal): Promise<StagedFirmware> {
  const staged = isArchive(await content.peek(TAR_BLOCK_BYTES))
    ? await readArtifact(content, { ...staging, decompress }, signal)
    : await stageImage(content, { ...staging, resumeAt: undefined }, signal);
  return toEnd(content, staged);
}

async function toEnd(content: ByteReader, staged: StagedFirmware): Promise<StagedFirmware> {
  assert(await content.atEnd(), 'staged, but not read to the end');
  return staged;
}

/**
 * Whether this is an archive. An artifact is a tar archive whose first member is `version` (Mender Artifact format
 * version 3); any other archive counts as a broken artifact, since it cannot be an image. POSIX.1-1988 ustar: name at
 * 0, magic at 257.
 */
function isArchive(block: Uint8Array): boolean {
  const text = Buffer.from(block).toString('latin1');
  return text.startsWith('version\0') || text.slice(257, 262) === 'ustar';
}

/** Whether a checkpoint can be continued. One with another encoding is older than the operator's setting. */
function isUsable(checkpoint: Checkpoint, { source }: StagingRequest, { encoding }: FirmwareSettings): boolean {
  return source.form === 'json-string' && (encoding === 'auto' || encoding === checkpoint.encoding);
}

/**
 * Lets a second attempt pass only for the firmware that was accepted first; if the header differs, the text has
 * changed.
 */
function once(accept: StagingRequest['accept']): StagingRequest['accept'] {
  let accepted: FirmwareHeader | undefined;
  return async (header) => {
    if (header === accepted) return;
    if (accepted !== undefined && (accepted.kind !== header.kind || accepted.digest !== header.digest)) {
      throw new FirmwareError('firmware-changed', 'the firmware changed while it was being staged');
    }
    await accept(header);
    accepted = header;
  };
}
