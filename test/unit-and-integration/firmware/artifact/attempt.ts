import type { Decompress } from '../../../../src/firmware/artifact/payload-reader.ts';
import { readArtifact } from '../../../../src/firmware/artifact/read-artifact.ts';
import type { ArtifactDeps } from '../../../../src/firmware/artifact/read-artifact.ts';
import type { TrustedKey, TrustSettings } from '../../../../src/firmware/artifact/trust.ts';
import { ByteReader } from '../../../../src/firmware/byte-reader.ts';
import { Checkpoints } from '../../../../src/firmware/checkpoints.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import type { StagedFirmware } from '../../../../src/update/ports/incoming.ts';
import { inChunks } from '../chunks.ts';
import { stageFrom } from '../stage-into.ts';
import { RecordingGateway } from './recording-gateway.ts';

export const noCheckpoints = new Checkpoints({ onCheckpoint: undefined, placeNow: () => undefined });

export interface Circumstances {
  readonly keys?: readonly TrustedKey[];
  readonly allowUnsigned?: boolean;
  /** Instead of both. */
  readonly trust?: TrustSettings;
  readonly deviceType?: string;
  readonly installed?: Readonly<Record<string, string>>;
  readonly decompress?: Decompress;
  readonly chunkSizes?: readonly number[];
  readonly gateway?: RecordingGateway;
  readonly signal?: AbortSignal;
}

export type Attempt = { readonly gateway: RecordingGateway } & (
  | { readonly kind: 'staged'; readonly staged: StagedFirmware }
  | { readonly kind: 'refused'; readonly error: AgentError }
);

/** Reads an artifact into a recording gateway. Anything thrown but an AgentError is thrown on. */
export async function attempt(artifact: Uint8Array, circumstances: Circumstances = {}): Promise<Attempt> {
  const { gateway, signal, keys, allowUnsigned, chunkSizes, ...given } = {
    gateway: new RecordingGateway(),
    signal: new AbortController().signal,
    keys: [],
    allowUnsigned: false,
    chunkSizes: [1000],
    ...circumstances,
  };
  const deps: ArtifactDeps = {
    trust: { keys, allowUnsigned },
    deviceType: 'gw',
    installedProvides: given.installed ?? {},
    decompress: (_kind, bytes) => bytes,
    checkpoints: noCheckpoints,
    ...given,
  };
  await using bytes = new ByteReader(inChunks(artifact, chunkSizes), 'artifact');
  try {
    const firmware = await readArtifact(bytes, deps, signal);
    signal.throwIfAborted();
    return { gateway, kind: 'staged', staged: await stageFrom(firmware, gateway.places, signal) };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { gateway, kind: 'refused', error };
  }
}

/** For artifacts that must be taken. */
export async function stage(
  artifact: Uint8Array,
  circumstances?: Circumstances,
): Promise<Extract<Attempt, { readonly kind: 'staged' }>> {
  const outcome = await attempt(artifact, circumstances);
  if (outcome.kind === 'staged') return outcome;
  throw outcome.error;
}

/** For artifacts that must be refused. */
export async function refuse(
  artifact: Uint8Array,
  circumstances?: Circumstances,
): Promise<Extract<Attempt, { readonly kind: 'refused' }>> {
  const outcome = await attempt(artifact, circumstances);
  if (outcome.kind === 'refused') return outcome;
  throw new Error('the artifact was taken');
}
