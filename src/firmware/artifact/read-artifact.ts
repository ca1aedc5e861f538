import type { FirmwareHeader, StagedFirmware, StagingRequest } from '../../update/ports.ts';
import { ByteReader } from '../byte-reader.ts';
import type { Checkpoints } from '../checkpoints.ts';
import { staleCheckpoint, VerificationError } from '../errors.ts';
import { ListWriter } from '../trust/list-writer.ts';
import { TRUST_LIST_TYPE } from '../trust/trust-list.ts';
import { findObstacle, providesAfter, securityVersionOf } from './compatibility.ts';
import { readEnvelope } from './envelope.ts';
import type { Envelope } from './envelope.ts';
import { readDescription } from './header.ts';
import type { ArtifactDescription } from './header.ts';
import { headOf, keepHead } from './kept-head.ts';
import { promisedList, requireKnownRevocations, requireList } from './list-artifact.ts';
import { insideMember, quoted } from './refusal.ts';
import { PayloadStager } from './stage-payloads.ts';
import type { Decompress, ResumedAt } from './stage-payloads.ts';
import { TarReader } from './tar-reader.ts';
import { assignTargets } from './targets.ts';
import type { PromisedFile } from './targets.ts';
import type { TrustSettings } from './trust.ts';

export interface ArtifactContext {
  readonly trust: TrustSettings;
  /**
   * Compared with the `device_type` of the artifact; undefined: the artifact is only described, so any device type
   * fits.
   */
  readonly deviceType: string | undefined;
  readonly request: Pick<StagingRequest, 'installedProvides' | 'accept' | 'openPayload' | 'openBase'>;
  readonly decompress: Decompress;
  readonly checkpoints: Checkpoints;
}

/**
 * Reads a Mender Artifact, format version 3, and stages its payloads in constant memory. The order is: signature,
 * checksum of the header, compatibility, `accept`, then the bytes of each payload and their digest. Throws a
 * VerificationError (exit 77) for everything that is wrong, except that an artifact that ends too early is a
 * FirmwareFormatError `firmware-truncated`.
 */
export async function readArtifact(
  bytes: ByteReader,
  context: ArtifactContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const tar = new TarReader(bytes, 'artifact');
  bytes.startRecord();
  const envelope = await readEnvelope(tar, context.trust);
  const head = keepHead(bytes.endRecord());
  const accepted = await acceptHeader(envelope, context, signal);
  if (accepted.firmware.header.kind === 'trust-list') return takeList(tar, accepted, context, signal);
  const payloads = await stagerOf(accepted, head, context).stage(tar, signal);
  return { ...accepted.firmware, payloads };
}

/** Takes a list of keys and revocations, which goes into no target. The list is in effect when this returns. */
async function takeList(
  tar: TarReader,
  accepted: Accepted,
  context: ArtifactContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const list = new ListWriter();
  const place = { ...context, request: { ...context.request, openPayload: async () => list } };
  await stagerOf(accepted, undefined, place).stage(tar, signal);
  signal.throwIfAborted();
  const { header, digest } = accepted.firmware;
  await context.trust.takeList?.(list.content, digest, header.signedBy);
  return { ...accepted.firmware, payloads: [] };
}

/**
 * Continues an artifact within a payload, where an earlier transfer was cut. The part before that place comes from the
 * checkpoint and is verified as if it had just arrived. Throws `checkpoint-stale` (retry) if the place does not fit.
 */
export async function resumeArtifact(
  bytes: ByteReader,
  resumed: ResumedAt,
  context: ArtifactContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const { head } = resumed.place;
  const kept = headOf(head);
  if (kept === undefined) throw staleCheckpoint('what it keeps of the artifact is damaged');
  await using before = new ByteReader(once(kept), 'checkpoint');
  const envelope = await readEnvelope(new TarReader(before, 'artifact'), context.trust);
  const accepted = await acceptHeader(envelope, context, signal);
  const payloads = await stagerOf(accepted, head, context).resume(bytes, resumed, signal);
  return { ...accepted.firmware, payloads };
}

interface Accepted {
  readonly firmware: Omit<StagedFirmware, 'payloads'>;
  readonly promised: readonly (readonly PromisedFile[])[];
}

async function acceptHeader(envelope: Envelope, context: ArtifactContext, signal: AbortSignal): Promise<Accepted> {
  const { request, trust } = context;
  const artifact = await openHeader(envelope, context, signal);
  requireCompatible(artifact, context);
  const isList = artifact.payloads.some(({ type }) => type === TRUST_LIST_TYPE);
  if (isList) requireList(artifact, envelope, trust);
  else requireKnownRevocations(envelope, artifact.name, trust);
  const promised = isList ? promisedList(envelope.manifest) : assignTargets(artifact, envelope.manifest);
  const provides = providesAfter(artifact, request.installedProvides);
  const described = { ...describe(artifact, envelope, promised), provides };
  const header: FirmwareHeader = isList ? { ...described, kind: 'trust-list', payloads: [] } : described;
  signal.throwIfAborted();
  await request.accept(header);
  return { firmware: { header, digest: envelope.digest, provides }, promised };
}

function stagerOf({ firmware, promised }: Accepted, head: string | undefined, context: ArtifactContext): PayloadStager {
  const { request, decompress, checkpoints } = context;
  const isSigned = firmware.header.signedBy !== undefined;
  return new PayloadStager({
    promised,
    isSigned,
    head,
    openPayload: request.openPayload,
    openBase: request.openBase,
    decompress,
    checkpoints,
  });
}

async function openHeader(
  { header, manifest }: Envelope,
  { decompress }: ArtifactContext,
  signal: AbortSignal,
): Promise<ArtifactDescription> {
  const { memberName, compression } = manifest.header;
  return insideMember(memberName, once(header), async (content) => {
    await using unpacked = new ByteReader(decompress(compression, content, signal), memberName);
    return await readDescription(new TarReader(unpacked, `artifact, ${memberName}`));
  });
}

function requireCompatible(artifact: ArtifactDescription, { deviceType, request }: ArtifactContext): void {
  if (deviceType === undefined) return;
  const obstacle = findObstacle(artifact, deviceType, request.installedProvides);
  if (obstacle === undefined) return;
  const code = obstacle.kind === 'device-type' ? 'device-type-mismatch' : 'depends-unmet';
  throw new VerificationError(code, `artifact ${quoted(artifact.name)} does not fit: ${obstacle.why}`);
}

function describe(
  artifact: ArtifactDescription,
  { provenance, digest }: Envelope,
  promised: readonly (readonly PromisedFile[])[],
): FirmwareHeader {
  return {
    kind: 'artifact',
    digest,
    name: artifact.name,
    deviceTypes: artifact.depends['device_type'],
    signedBy: provenance.kind === 'signed' ? provenance.by : undefined,
    securityVersion: securityVersionOf(artifact),
    unknownSigner: provenance.kind === 'unknown-signer',
    payloads: promised.flat().map((file) => file.header),
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}
