import type { Checkpoint, FirmwareHeader, StagedFirmware, StagingRequest } from '../update/ports.ts';
import type { TrustSettings } from './artifact/trust.ts';
import type { ByteReader } from './byte-reader.ts';
import { FirmwareFormatError, VerificationError } from './errors.ts';
import type { StreamPlace } from './firmware-stream.ts';

/** How much of an image may have to be sent again after a power cut. Making it durable costs a pause each time. */
export const CHECKPOINT_BYTES = 64 * 1024 * 1024;

const payload = { fileName: 'image', target: 'default' } as const;

/** Nothing is known of an image but that it is one. Always the same object, so that a second attempt needs no new consent. */
export const imageHeader: FirmwareHeader = {
  kind: 'image',
  digest: undefined,
  name: undefined,
  signedBy: undefined,
  payloads: [payload],
};

export interface ImageContext {
  readonly trust: TrustSettings;
  readonly request: Pick<StagingRequest, 'accept' | 'openPayload' | 'onCheckpoint'>;
  /** What the place holds already, before `content`. */
  readonly resumeAt: Checkpoint['image'] | undefined;
  readonly checkpointEveryBytes?: number | undefined;
  /** Where `content` stands; undefined: no checkpoint is possible now, or ever. */
  readonly place: () => StreamPlace | undefined;
}

/**
 * Stages a raw image. It has no signature, so `image-unsigned` (exit 77) unless the operator permits that; `image-empty`
 * if there is none of it.
 */
export async function stageImage(
  content: ByteReader,
  { trust, request, resumeAt, place, checkpointEveryBytes = CHECKPOINT_BYTES }: ImageContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  requireUnsignedPermitted(trust);
  if (resumeAt === undefined && (await content.atEnd()))
    throw new FirmwareFormatError('image-empty', 'image', 0, 'it is empty');
  await request.accept(imageHeader);
  signal.throwIfAborted();

  await using writer = await request.openPayload({ payload, sizeBytes: undefined, resumeAt });
  let sinceCheckpoint = 0;
  for await (const chunk of content.rest()) {
    const taken = writer.write(chunk);
    if (taken !== undefined) await taken;
    sinceCheckpoint += chunk.length;
    const here = request.onCheckpoint === undefined || sinceCheckpoint < checkpointEveryBytes ? undefined : place();
    if (here === undefined) continue;
    await request.onCheckpoint?.({ ...here, image: await writer.checkpoint(signal) });
    sinceCheckpoint = 0;
  }
  const written = await writer.finish(signal);
  return {
    header: imageHeader,
    digest: written.digest,
    provides: {},
    payloads: [{ header: payload, written, promise: { kind: 'unsigned-permitted' } }],
  };
}

function requireUnsignedPermitted({ allowUnsigned }: TrustSettings): void {
  if (allowUnsigned) return;
  throw new VerificationError(
    'image-unsigned',
    'the firmware is a raw image, which has no signature',
    'build a signed artifact of it (mender-artifact), or set allow_unsigned = true in [trust]',
  );
}
