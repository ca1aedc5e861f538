import { FirmwareFormatError, VerificationError } from '../../../src/firmware/errors.ts';
import type {
  Checkpoint,
  FirmwareHeader,
  FirmwareTransfer,
  PayloadOpening,
  PayloadWriter,
  StagedFirmware,
  StageFirmware,
  StagingRequest,
} from '../../../src/update/ports.ts';
import { sha256 } from '../../stand-ins/machine/memory/memory-slots.ts';

const HEADER_BYTES = 8;

/** A firmware for tests of the update room: eight bytes that say `trusted:` or something else, then the image. */
export function plainFirmware(image: string, header = 'trusted:'): Uint8Array {
  return Buffer.from(header + image, 'latin1');
}

const payload = { fileName: 'image', target: 'default' } as const;
const header: FirmwareHeader = {
  kind: 'image',
  digest: undefined,
  name: undefined,
  signedBy: 'release',
  payloads: [payload],
};

/** Stands for the firmware room: same order of calls, same checkpoints, no formats. */
export const stagePlainFirmware: StageFirmware = async (request, signal) => {
  const from = request.resume?.wire;
  await using transfer = await request.source.open(from, signal);
  const resumeAt = transfer.startOffset === from?.offset ? request.resume?.image : undefined;
  await using stack = new AsyncDisposableStack();
  let writer: PayloadWriter | undefined;
  let offset = transfer.startOffset;
  for await (const chunk of transfer.chunks) {
    if (writer === undefined) {
      if (wordOf(chunk) === LIST) return await takeList(request);
      writer = stack.use(await openWriter(request, chunk, resumeAt));
    }
    await writer.write(offset === 0 ? chunk.subarray(HEADER_BYTES) : chunk);
    offset += chunk.byteLength;
    if (offset % 32 === 0) await request.onCheckpoint?.(await checkpointAt(offset, transfer, writer, signal));
  }
  if (writer === undefined) throw new FirmwareFormatError('image-empty', 'image', 0, 'nothing came');
  const written = await writer.finish(signal);
  const promise = { kind: 'manifest', digest: written.digest } as const;
  return { header, digest: written.digest, provides: {}, payloads: [{ header: payload, written, promise }] };
};

async function openWriter(
  request: Pick<StagingRequest, 'accept' | 'openPayload'>,
  first: Uint8Array,
  resumeAt: PayloadOpening['resumeAt'],
): Promise<PayloadWriter> {
  if (resumeAt === undefined) refuseUntrusted(first);
  await request.accept(header);
  return request.openPayload({ payload, sizeBytes: undefined, resumeAt });
}

/** In place of `trusted:`: a list of keys and revocations. */
export const LIST = 'keylist:';

async function takeList(request: Pick<StagingRequest, 'accept'>): Promise<StagedFirmware> {
  const list: FirmwareHeader = {
    ...header,
    kind: 'trust-list',
    digest: 'sha256:list',
    name: 'version list',
    payloads: [],
  };
  await request.accept(list);
  return { header: list, digest: 'sha256:list', provides: {}, payloads: [] };
}

function wordOf(chunk: Uint8Array): string {
  return Buffer.from(chunk.subarray(0, HEADER_BYTES)).toString('latin1');
}

function refuseUntrusted(chunk: Uint8Array): void {
  if (wordOf(chunk) !== 'trusted:') throw new VerificationError('signature-invalid', 'signed by nobody we trust');
}

async function checkpointAt(
  offset: number,
  transfer: FirmwareTransfer,
  writer: PayloadWriter,
  signal: AbortSignal,
): Promise<Checkpoint> {
  const wire = { offset, validator: transfer.validator ?? '', totalBytes: transfer.totalBytes ?? 0 };
  return { wire, encoding: 'hex', carry: '', image: await writer.checkpoint(signal) };
}

export function digestOfPlain(image: string): string {
  return sha256(Buffer.from(image, 'latin1'));
}
