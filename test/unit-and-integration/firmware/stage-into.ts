import type { ReadFirmware } from '../../../src/firmware/incoming.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type {
  BaseReader,
  Checkpoint,
  FirmwareHeader,
  PayloadHeader,
  PayloadOpening,
  PayloadWriter,
} from '../../../src/update/ports.ts';
import type {
  FirmwareRequest,
  OpenFirmware,
  StagedFirmware,
  StagedPayload,
} from '../../../src/update/ports/incoming.ts';
import { stagedFirmware } from '../../../src/update/staging/staging.ts';

/** Targets of the payloads. */
export interface Places {
  /** Throws to refuse. */
  readonly accept?: ((header: FirmwareHeader) => Promise<void>) | undefined;
  readonly openPayload: (opening: PayloadOpening) => Promise<PayloadWriter>;
  readonly openBase?: ((payload: PayloadHeader) => Promise<BaseReader>) | undefined;
}

export interface StagingRequest
  extends Omit<FirmwareRequest, 'expected' | 'onCheckpoint' | 'installedProvides'>, Places {
  readonly installedProvides?: FirmwareRequest['installedProvides'];
  /** Called with undefined if the previous one is invalid. */
  readonly onCheckpoint?: (checkpoint: Checkpoint | undefined) => Promise<void>;
}

const STALE_CODES: ReadonlySet<string> = new Set(['checkpoint-stale', 'payload-stale', 'delta-base-mismatch']);

/** Stages a release as the update engine does (`update/staging/staging.ts`), for any targets. */
export async function stageInto(
  open: OpenFirmware,
  { accept, openPayload, openBase, resume, installedProvides = {}, ...request }: StagingRequest,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  let expected: FirmwareHeader | undefined;
  const begin = async (from: Checkpoint | undefined): Promise<StagedFirmware> => {
    await using firmware = await open({ ...request, installedProvides, resume: from, expected }, signal);
    signal.throwIfAborted();
    const isAccepted = firmware.header === expected;
    expected = firmware.header;
    return await stageFrom(firmware, { accept: isAccepted ? undefined : accept, openPayload, openBase }, signal);
  };
  try {
    return await begin(resume);
  } catch (error) {
    if (resume === undefined || !(error instanceof AgentError) || !STALE_CODES.has(error.code)) throw error;
  }
  await request.onCheckpoint?.(undefined);
  return begin(undefined);
}

export async function stageFrom(
  { header, payloads }: ReadFirmware,
  { accept, openPayload, openBase }: Places,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  await accept?.(header);
  const staged: StagedPayload[] = [];
  for await (const payload of payloads) {
    await using base = payload.isRebuilt ? await openBase?.(payload.payload) : undefined;
    await using writer = await openPayload(payload);
    staged.push(await payload.write({ writer, base }, signal));
  }
  return stagedFirmware(header, staged);
}
