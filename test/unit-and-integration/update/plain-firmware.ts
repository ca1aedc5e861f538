import { FirmwareFormatError, VerificationError } from '../../../src/firmware/errors.ts';
import { noPayloads } from '../../../src/firmware/incoming.ts';
import type {
  Checkpoint,
  FirmwareHeader,
  FirmwareTransfer,
  PayloadOpening,
  PayloadWriter,
} from '../../../src/update/ports.ts';
import type { FirmwareRequest, IncomingPayload, OpenFirmware } from '../../../src/update/ports/incoming.ts';
import { sha256 } from '../../fakes/machine/memory/memory-slots.ts';

const HEADER_BYTES = 8;

/** An update for tests of the engine: eight bytes, `trusted:` or others, then the image. */
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

/** Stands for the firmware room: same order of calls, same checkpoints, no formats. `onList`: a list took effect. */
export function plainFirmwareOpener(onList: () => void = () => {}): OpenFirmware {
  return async (request, signal) => {
    const from = request.resume?.wire;
    await using opened = new AsyncDisposableStack();
    const transfer = opened.use(await request.source.open(from, signal));
    const resumeAt = transfer.startOffset === from?.offset ? request.resume?.image : undefined;
    const chunks = transfer.chunks[Symbol.asyncIterator]();
    const first = await chunks.next();
    if (first.done === true) throw new FirmwareFormatError('image-empty', 'image', 0, 'nothing came');
    const isList = wordOf(first.value) === LIST;
    if (resumeAt === undefined && !isList) refuseUntrusted(first.value);
    const left = opened.move();
    const payloads = isList
      ? noPayloads(async () => onList())
      : onlyPayload({ transfer, chunks, first: first.value, resumeAt }, request);
    return { header: isList ? list : header, payloads, [Symbol.asyncDispose]: async () => left.disposeAsync() };
  };
}

export const openPlainFirmware = plainFirmwareOpener();

interface PlainTransfer {
  readonly transfer: FirmwareTransfer;
  readonly chunks: AsyncIterator<Uint8Array>;
  readonly first: Uint8Array;
  readonly resumeAt: PayloadOpening['resumeAt'];
}

async function* onlyPayload(
  { transfer, chunks, first, resumeAt }: PlainTransfer,
  { onCheckpoint }: FirmwareRequest,
): AsyncGenerator<IncomingPayload, void, undefined> {
  const write: IncomingPayload['write'] = async ({ writer }, signal) => {
    let offset = transfer.startOffset;
    for (let chunk: Uint8Array | undefined = first; chunk !== undefined;) {
      await writer.write(offset === 0 ? chunk.subarray(HEADER_BYTES) : chunk);
      offset += chunk.byteLength;
      if (offset % 32 === 0) await onCheckpoint?.(await checkpointAt(offset, transfer, writer, signal));
      const next = await chunks.next();
      chunk = next.done === true ? undefined : next.value;
    }
    const written = await writer.finish(signal);
    return { header: payload, written, promise: { kind: 'manifest', digest: written.digest } };
  };
  yield { payload, sizeBytes: undefined, resumeAt, isRebuilt: false, write };
}

/** Replaces `trusted:` in a trust list. */
export const LIST = 'keylist:';

const list: FirmwareHeader = {
  ...header,
  kind: 'trust-list',
  digest: 'sha256:list',
  name: 'trust-1',
  payloads: [],
};

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
