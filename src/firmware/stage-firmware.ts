import assert from 'node:assert/strict';

import { AgentError } from '../system/errors.ts';
import type { Checkpoint, FirmwareHeader, StagedFirmware, StageFirmware, StagingRequest } from '../update/ports.ts';
import { readArtifact } from './artifact/read-artifact.ts';
import type { TrustSettings } from './artifact/trust.ts';
import { ByteReader } from './byte-reader.ts';
import { decompress, detectCompression, MAGIC_BYTES } from './compression/compression.ts';
import { FirmwareError } from './errors.ts';
import { openFirmwareStream } from './firmware-stream.ts';
import type { FirmwareStream } from './firmware-stream.ts';
import { stageImage } from './image.ts';
import type { EncodingSetting } from './text/encoding.ts';

export interface FirmwareSettings {
  readonly encoding: EncodingSetting;
  readonly trust: TrustSettings;
  /** Compared with an artifact's `device_type`. */
  readonly deviceType: string;
  /** Default: CHECKPOINT_BYTES of image.ts. */
  readonly checkpointEveryBytes?: number | undefined;
}

const TAR_BLOCK_BYTES = 512;

/**
 * From the encoded text to verified payload bytes in their places. Throws FirmwareFormatError (exit 76) for what cannot
 * be read, VerificationError (exit 77) for what must not be installed, and what the source and the places throw.
 */
export function createStageFirmware(settings: FirmwareSettings): StageFirmware {
  return async (asked, signal) => {
    const request = { ...asked, accept: once(asked.accept) };
    const { resume } = request;
    if (resume !== undefined && isUsable(resume, request, settings)) {
      try {
        return await stage(settings, request, resume, signal);
      } catch (error) {
        if (!(error instanceof AgentError && error.code === 'checkpoint-stale')) throw error;
      }
    }
    return stage(settings, request, undefined, signal);
  };
}

async function stage(
  settings: FirmwareSettings,
  request: StagingRequest,
  checkpoint: Checkpoint | undefined,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const { source, onProgress } = request;
  await using stream = await openFirmwareStream(
    { source, onProgress, encoding: settings.encoding },
    checkpoint,
    signal,
  );
  const { bytes, place } = stream;
  const staging = { ...settings, request };
  if (stream.isContinued) return await stageImage(bytes, { ...staging, place, resumeAt: checkpoint?.image }, signal);

  const compression = detectCompression(await bytes.peek(MAGIC_BYTES));
  if (compression === 'none') return await stageContent(bytes, { ...staging, place }, signal);
  await using unpacked = new ByteReader(decompress(compression, bytes.rest(), signal), 'firmware');
  return await stageContent(unpacked, { ...staging, place: () => undefined }, signal);
}

async function stageContent(
  content: ByteReader,
  staging: FirmwareSettings & { readonly request: StagingRequest; readonly place: FirmwareStream['place'] },
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const staged = isArchive(await content.peek(TAR_BLOCK_BYTES))
    ? await readArtifact(content, { ...staging, decompress }, signal)
    : await stageImage(content, { ...staging, resumeAt: undefined }, signal);
  assert(await content.atEnd(), 'staged, but not read to the end');
  return staged;
}

/**
 * An artifact is a tar archive whose first member is `version` (Mender Artifact format version 3). Every other archive
 * counts as a broken artifact, since none is an image of anything. POSIX.1-1988 ustar: name at 0, magic at 257.
 */
function isArchive(block: Uint8Array): boolean {
  const text = Buffer.from(block).toString('latin1');
  return text.startsWith('version\0') || text.slice(257, 262) === 'ustar';
}

/** A checkpoint of another encoding is of another time: the operator has set one meanwhile. */
function isUsable(checkpoint: Checkpoint, { source }: StagingRequest, { encoding }: FirmwareSettings): boolean {
  return source.form === 'json-string' && (encoding === 'auto' || encoding === checkpoint.encoding);
}

/** A second attempt with the same header needs no new consent; if it found something else, the text has changed. */
function once(accept: StagingRequest['accept']): StagingRequest['accept'] {
  let accepted: FirmwareHeader | undefined;
  return async (header) => {
    if (header === accepted) return;
    if (accepted !== undefined) {
      throw new FirmwareError('firmware-changed', 'the firmware changed while it was being staged');
    }
    await accept(header);
    accepted = header;
  };
}
