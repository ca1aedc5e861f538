import { claimsOf } from '../../../../src/firmware/delta/encode.ts';
import { buildArtifact } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { ArtifactOptions } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { deltaOf } from '../../../unit-and-integration/firmware/delta/delta-bench.ts';

export interface DeltaContents {
  readonly base: string;
  /** The signed content. */
  readonly image: string;
  /** The resulting content. */
  readonly made: string;
  readonly target: string;
}

/** A signed artifact, and the file that is in it. */
export async function buildDelta(
  options: Omit<ArtifactOptions, 'files'>,
  { base, image, made, target }: DeltaContents,
): Promise<{ readonly decoded: Buffer; readonly file: Buffer }> {
  const [from, to] = [Buffer.from(base, 'latin1'), Buffer.from(image, 'latin1')];
  const result = Buffer.from(made.padEnd(image.length).slice(0, image.length), 'latin1');
  const file = await deltaOf(from, result);
  const deltas = { 'root.delta': { target, ...claimsOf(from, to) } };
  return { file, decoded: await buildArtifact({ ...options, files: [{ name: 'root.delta', content: file }], deltas }) };
}
