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

export interface ImageContext {
  readonly trust: TrustSettings;
  /** What the slot already holds before `content`. */
  readonly resumeAt: Checkpoint['image'] | undefined;
  readonly checkpoints: Checkpoints;
}

/**
 * Reads a raw image. Throws `image-unsigned` (exit 77) unless the operator permits images, which have no signature,
 * and `image-empty` for an empty one.
 */
export async function readImage(content: ByteReader, context: ImageContext): Promise<ReadFirmware> {
  if (context.resumeAt === undefined && (await content.atEnd()))
    throw new FirmwareFormatError('image-empty', 'image', 0, 'it is empty');
  requireUnsignedPermitted(context.trust);
  return { header: imageHeader, payloads: onlyPayload(content, context) };
}

async function* onlyPayload(
  content: ByteReader,
  { resumeAt, checkpoints }: ImageContext,
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
    'it is no artifact: a raw image, which has no signature, or no firmware at all',
    'see whether it is the right file, and whole; an image is made a signed artifact with mender-artifact, or permitted by allow_unsigned = true in [trust]',
  );
}
