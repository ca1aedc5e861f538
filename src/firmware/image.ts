import type { Checkpoint, FirmwareHeader, StagedFirmware, StagingRequest } from '../update/ports.ts';
import type { TrustSettings } from './artifact/trust.ts';
import type { ByteReader } from './byte-reader.ts';
import type { Checkpoints } from './checkpoints.ts';
import { FirmwareFormatError, VerificationError } from './errors.ts';

const payload = { fileName: 'image', target: 'default' } as const;

/**
 * The header of a raw image, about which nothing is known. It is always the same object, so that a second attempt needs
 * no new consent.
 */
const imageHeader: FirmwareHeader = {
  kind: 'image',
  digest: undefined,
  name: undefined,
  signedBy: undefined,
  payloads: [payload],
};

export interface ImageContext {
  readonly trust: TrustSettings;
  readonly request: Pick<StagingRequest, 'accept' | 'openPayload'>;
  /** What the slot already holds before `content`. */
  readonly resumeAt: Checkpoint['image'] | undefined;
  readonly checkpoints: Checkpoints;
}

/**
 * Stages a raw image. Throws `image-unsigned` (exit 77) unless the operator permits images, which have no signature,
 * and `image-empty` for an empty one.
 */
export async function stageImage(
  content: ByteReader,
  { trust, request, resumeAt, checkpoints }: ImageContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  if (resumeAt === undefined && (await content.atEnd()))
    throw new FirmwareFormatError('image-empty', 'image', 0, 'it is empty');
  requireUnsignedPermitted(trust);
  await request.accept(imageHeader);
  signal.throwIfAborted();

  await using writer = await request.openPayload({ payload, sizeBytes: undefined, resumeAt });
  await checkpoints.write(content.rest(), { writer, describe: (place) => place }, signal);
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
    'it is no artifact: a raw image, which has no signature, or no firmware at all',
    'see whether it is the right file, and whole; an image is made a signed artifact with mender-artifact, or permitted by allow_unsigned = true in [trust]',
  );
}
