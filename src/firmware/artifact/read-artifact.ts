import type { FirmwareHeader, StagedFirmware, StagedPayload, StagingRequest } from '../../update/ports.ts';
import { ByteReader } from '../byte-reader.ts';
import type { Compression } from '../compression/compression.ts';
import { VerificationError } from '../errors.ts';
import { findObstacle, providesAfter, securityVersionOf } from './compatibility.ts';
import { readEnvelope, unexpected } from './envelope.ts';
import type { Envelope } from './envelope.ts';
import { readDescription } from './header.ts';
import type { ArtifactDescription } from './header.ts';
import { compressionOf } from './manifest.ts';
import { insideMember, quoted } from './refusal.ts';
import { TarReader } from './tar-reader.ts';
import { assignTargets } from './targets.ts';
import type { PromisedFile } from './targets.ts';
import type { TrustSettings } from './trust.ts';

export type Decompress = (
  kind: Compression,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
) => AsyncIterable<Uint8Array>;

export interface ArtifactContext {
  readonly trust: TrustSettings;
  /** Compared with the artifact's `device_type`. */
  readonly deviceType: string;
  readonly request: Pick<StagingRequest, 'installedProvides' | 'accept' | 'openPayload'>;
  readonly decompress: Decompress;
}

/**
 * Reads a Mender Artifact, format version 3, and stages its payloads in constant memory. Order: signature, header's
 * checksum, compatibility, `accept`, then each payload's bytes and their digest. Whatever is amiss is a VerificationError
 * (exit 77); an artifact that ends too early is a FirmwareFormatError `firmware-truncated`.
 */
export async function readArtifact(
  bytes: ByteReader,
  context: ArtifactContext,
  signal: AbortSignal,
): Promise<StagedFirmware> {
  const { request } = context;
  const tar = new TarReader(bytes, 'artifact');
  const envelope = await readEnvelope(tar, context.trust);
  const artifact = await openHeader(envelope, context, signal);
  requireCompatible(artifact, context);
  const promised = assignTargets(artifact, envelope.manifest);
  const provides = providesAfter(artifact, request.installedProvides);
  const header = { ...describe(artifact, envelope, promised), provides };
  signal.throwIfAborted();
  await request.accept(header);

  const payloads: StagedPayload[] = [];
  for (const [number, files] of promised.entries()) {
    payloads.push(...(await stageData(tar, { number, files, envelope, context }, signal)));
  }
  const extra = await tar.next();
  if (extra !== undefined) throw unexpected(extra.name, 'the end');
  return { header, digest: envelope.digest, provides, payloads };
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
    signedBy: provenance.kind === 'signed' ? provenance.by : undefined,
    securityVersion: securityVersionOf(artifact),
    unknownSigner: provenance.kind === 'unknown-signer',
    payloads: promised.flat().map((file) => file.header),
  };
}

interface DataMember {
  readonly number: number;
  readonly files: readonly PromisedFile[];
  readonly envelope: Envelope;
  readonly context: ArtifactContext;
}

/** One `data/NNNN.tar`: exactly the files that the manifest promises, in any order. */
async function stageData(tar: TarReader, data: DataMember, signal: AbortSignal): Promise<readonly StagedPayload[]> {
  const stem = `data/${String(data.number).padStart(4, '0')}.tar`;
  const member = await tar.next();
  const compression = compressionOf(member?.name ?? '', stem);
  if (member === undefined || compression === undefined) throw unexpected(member?.name, stem);
  return insideMember(member.name, tar.content(), async (content) => {
    await using unpacked = new ByteReader(data.context.decompress(compression, content, signal), member.name);
    return await stageFiles(new TarReader(unpacked, `artifact, ${member.name}`), data, signal);
  });
}

async function stageFiles(tar: TarReader, data: DataMember, signal: AbortSignal): Promise<readonly StagedPayload[]> {
  const awaited = new Map(data.files.map((file) => [file.header.fileName, file]));
  const staged: StagedPayload[] = [];
  for (let member = await tar.next(); member !== undefined; member = await tar.next()) {
    const file = awaited.get(member.name);
    if (file === undefined) throw mismatch(member.name, 'is in the artifact, but the manifest lacks it');
    if (member.sizeBytes === 0) throw mismatch(member.name, 'is empty');
    awaited.delete(member.name);
    staged.push(await stageFile(tar, { file, sizeBytes: member.sizeBytes, ...data }, signal));
  }
  for (const fileName of awaited.keys()) throw mismatch(fileName, 'is in the manifest, but the artifact lacks it');
  return staged;
}

async function stageFile(
  tar: TarReader,
  work: DataMember & { readonly file: PromisedFile; readonly sizeBytes: number },
  signal: AbortSignal,
): Promise<StagedPayload> {
  const { file, sizeBytes, envelope, context } = work;
  await using writer = await context.request.openPayload({ payload: file.header, sizeBytes, resumeAt: undefined });
  for await (const chunk of tar.content()) {
    signal.throwIfAborted();
    const taken = writer.write(chunk);
    if (taken !== undefined) await taken;
  }
  const written = await writer.finish(signal);
  if (written.digest !== file.digest) {
    throw new VerificationError(
      'digest-mismatch',
      `artifact: payload ${quoted(file.header.fileName)} is not what the manifest promises`,
    );
  }
  const signed = envelope.provenance.kind === 'signed';
  const promise: StagedPayload['promise'] = signed
    ? { kind: 'manifest', digest: file.digest }
    : { kind: 'unsigned-permitted' };
  return { header: file.header, written, promise };
}

function mismatch(fileName: string, why: string): VerificationError {
  return new VerificationError('manifest-mismatch', `artifact: payload ${quoted(fileName)} ${why}`);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}
