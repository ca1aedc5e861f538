import type { Checkpoint, FirmwareHeader } from '../update/ports.ts';
import type { IncomingPayload } from '../update/ports/incoming.ts';
import type { TrustSettings } from './artifact/trust.ts';
import type { ByteReader } from './byte-reader.ts';
import type { Checkpoints } from './checkpoints.ts';
import { FirmwareFormatError, VerificationError } from './errors.ts';
import type { ReadFirmware } from './incoming.ts';

const payload = { fileName: 'image', target: 'default' } as const;

/** The header of a raw image, about which nothing is known. */
const imageHeader: FirmwareHeader = {
  kind: 'image',
  digest: undefined,
  name: undefined,
  signedBy: undefined,
  payloads: [payload],
};

export interface ImageDeps {
  readonly trust: TrustSettings;
  readonly checkpoints: Checkpoints;
}

/**
 * Reads a raw image. Throws `image-unsigned` (exit 77) unless the operator permits images, which have no signature,
 * and `image-empty` for an empty one. `resumeAt`: what the slot already holds before `content`.
 */
export async function readImage(
  content: ByteReader,
  { trust, checkpoints }: ImageDeps,
  resumeAt?: Checkpoint['image'],
): Promise<ReadFirmware> {
  if (resumeAt === undefined && (await content.atEnd()))
    throw new FirmwareFormatError('image-empty', 'image', 0, 'it is empty');
  requireUnsignedPermitted(trust);
  return { header: imageHeader, payloads: onlyPayload(content, checkpoints, resumeAt) };
}

async function* onlyPayload(
  content: ByteReader,
  checkpoints: Checkpoints,
  resumeAt: Checkpoint['image'] | undefined,
): AsyncGenerator<IncomingPayload, void, undefined> {
  const write: IncomingPayload['write'] = async ({ writer }, signal) => {
    await checkpoints.write(content.rest(), { writer, describe: (place) => place }, signal);
    return { header: payload, written: await writer.finish(signal), promise: { kind: 'unsigned-permitted' } };
  };
  yield { payload, sizeBytes: undefined, resumeAt, isRebuilt: false, write };
}

function requireUnsignedPermitted({ allowUnsigned }: TrustSettings): void {
  if (allowUnsigned) return;
  throw new VerificationError(
    'image-unsigned',
    'it is not an artifact: a raw image, which has no signature, or not a firmware image at all',
    'see whether it is the right file, and whole; an image is made a signed artifact with mender-artifact, or permitted by allow_unsigned = true in [trust]',
  );
}
