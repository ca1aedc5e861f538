import { mapError } from '../../system/errors.ts';
import type { FirmwareHeader } from '../../update/ports.ts';
import { ByteReader } from '../byte-reader.ts';
import type { Checkpoints } from '../checkpoints.ts';
import { staleCheckpoint, VerificationError } from '../errors.ts';
import { noPayloads } from '../incoming.ts';
import type { ReadFirmware } from '../incoming.ts';
import { ListWriter } from '../trust/list-writer.ts';
import { TRUST_LIST_TYPE } from '../trust/trust-list.ts';
import { findIncompatibility, providesAfter, securityVersionOf } from './compatibility.ts';
import { readEnvelope } from './envelope.ts';
import type { Envelope } from './envelope.ts';
import { decodeHeader, encodeHeader } from './header-checkpoint.ts';
import type { ResumedAt } from './header-checkpoint.ts';
import { readDescription } from './header.ts';
import type { ArtifactDescription } from './header.ts';
import { PayloadReader } from './payload-reader.ts';
import type { Decompress } from './payload-reader.ts';
import { quoted, watchMember } from './refusal.ts';
import { TarReader } from './tar/tar-reader.ts';
import { assignTargets } from './targets.ts';
import type { DeclaredFile } from './targets.ts';
import { declaredTrustList, requireKnownRevocations, requireList } from './trust-list-artifact.ts';
import type { TrustSettings } from './trust.ts';

export interface ArtifactDeps {
  readonly trust: TrustSettings;
  /**
   * Compared with the `device_type` of the artifact. If omitted, the artifact is only described, so any device type
   * fits.
   */
  readonly deviceType: string | undefined;
  readonly installedProvides: Readonly<Record<string, string>>;
  /** Called with the verified name of a signed artifact, before anything else in it is checked. */
  readonly onSignedName?: ((name: string) => void) | undefined;
  readonly decompress: Decompress;
  readonly checkpoints: Checkpoints;
}

/**
 * Reads a Mender Artifact, format version 3, in constant memory. The order is: signature, checksum of the header,
 * compatibility, and then, while the payloads are iterated, the bytes of each payload and their digest. Throws a
 * VerificationError (exit 77) for everything that is wrong, except that a truncated artifact is a FirmwareFormatError
 * `firmware-truncated`.
 */
export async function readArtifact(bytes: ByteReader, deps: ArtifactDeps, signal: AbortSignal): Promise<ReadFirmware> {
  const tar = new TarReader(bytes, 'artifact');
  bytes.startRecord();
  const envelope = await readEnvelope(tar, deps.trust);
  const head = encodeHeader(bytes.endRecord());
  const described = await describe(envelope, deps, signal);
  const { header } = described;
  if (header.kind === 'trust-list') {
    const payloads = noPayloads(async () => takeList(tar, described, deps, signal));
    return { header, payloads };
  }
  return { header, payloads: payloadsOf(described, head, deps).read(tar, signal) };
}

/** Takes a trust list, which goes into no target. The list is in effect when this returns. */
async function takeList(tar: TarReader, described: Described, deps: ArtifactDeps, signal: AbortSignal): Promise<void> {
  const writer = new ListWriter();
  for await (const file of payloadsOf(described, undefined, deps).read(tar, signal))
    await file.write({ writer }, signal);
  signal.throwIfAborted();
  await deps.trust.takeList?.(writer.content, described.digest, described.header.signedBy);
}

/**
 * Continues an artifact within a payload, where an earlier transfer was interrupted. The part before that place comes
 * from the checkpoint and is verified as if it had just arrived. Throws `checkpoint-stale` (retry) if the place does
 * not fit.
 */
export async function resumeArtifact(
  bytes: ByteReader,
  resumed: ResumedAt,
  deps: ArtifactDeps,
  signal: AbortSignal,
): Promise<ReadFirmware> {
  const { head } = resumed.place;
  const kept = decodeHeader(head);
  if (kept === undefined) throw staleCheckpoint('what it keeps of the artifact is damaged');
  await using before = new ByteReader(once(kept), 'checkpoint');
  const envelope = await readEnvelope(new TarReader(before, 'artifact'), deps.trust);
  const described = await describe(envelope, deps, signal);
  return { header: described.header, payloads: payloadsOf(described, head, deps).resume(bytes, resumed, signal) };
}

interface Described {
  readonly header: FirmwareHeader;
  readonly digest: string;
  readonly promised: readonly (readonly DeclaredFile[])[];
}

/** Reads the header, and refuses an artifact that is not permitted on this gateway. */
async function describe(envelope: Envelope, deps: ArtifactDeps, signal: AbortSignal): Promise<Described> {
  const { trust, installedProvides } = deps;
  const artifact = await openHeader(envelope, deps, signal);
  if (envelope.provenance.kind === 'signed') deps.onSignedName?.(artifact.name);
  requireCompatible(artifact, deps);
  const isList = artifact.payloads.some(({ type }) => type === TRUST_LIST_TYPE);
  if (isList) requireList(artifact, envelope, trust);
  else requireKnownRevocations(envelope, artifact.name, trust);
  const promised = isList ? declaredTrustList(envelope.manifest) : assignTargets(artifact, envelope.manifest);
  const described = { ...headerOf(artifact, envelope, promised), provides: providesAfter(artifact, installedProvides) };
  const header: FirmwareHeader = isList ? { ...described, kind: 'trust-list', payloads: [] } : described;
  return { header, digest: envelope.digest, promised };
}

function payloadsOf(
  { header, promised }: Described,
  head: string | undefined,
  { decompress, checkpoints }: ArtifactDeps,
): PayloadReader {
  return new PayloadReader({ promised, isSigned: header.signedBy !== undefined, head, decompress, checkpoints });
}

async function openHeader(
  { header, manifest }: Envelope,
  { decompress }: ArtifactDeps,
  signal: AbortSignal,
): Promise<ArtifactDescription> {
  const { memberName, compression } = manifest.header;
  const { content, told } = watchMember(memberName, once(header));
  const read = async (): Promise<ArtifactDescription> => {
    await using unpacked = new ByteReader(decompress(compression, content, signal), memberName);
    return await readDescription(new TarReader(unpacked, `artifact, ${memberName}`));
  };
  return mapError(read(), told);
}

function requireCompatible(artifact: ArtifactDescription, deps: ArtifactDeps): void {
  const { deviceType, installedProvides } = deps;
  if (deviceType === undefined) return;
  const obstacle = findIncompatibility(artifact, deviceType, installedProvides);
  if (obstacle === undefined) return;
  const code = obstacle.kind === 'device-type' ? 'device-type-mismatch' : 'depends-unmet';
  throw new VerificationError(code, `artifact ${quoted(artifact.name)} does not fit: ${obstacle.why}`);
}

function headerOf(
  artifact: ArtifactDescription,
  { provenance, digest }: Envelope,
  promised: readonly (readonly DeclaredFile[])[],
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
