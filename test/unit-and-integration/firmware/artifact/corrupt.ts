import type { AgentError } from '../../../../src/system/errors.ts';
import { attempt } from './attempt.ts';
import type { Circumstances } from './attempt.ts';

/**
 * Returns the violation by a corrupted artifact; undefined if it was rejected in order, or if the change is harmless (a
 * file time, an owner) and the content arrived as signed.
 */
export async function misdeedOf(
  corrupted: Uint8Array,
  contents: ReadonlyMap<string, Buffer>,
  circumstances: Circumstances,
): Promise<string | undefined> {
  const outcome = await attempt(corrupted, circumstances).catch((error: unknown) => ({
    kind: 'crashed' as const,
    error,
  }));
  if (outcome.kind === 'crashed') return `crashed: ${String(outcome.error)}`;
  const { gateway } = outcome;
  if (gateway.unclosed !== 0) return 'left a payload open';
  if (outcome.kind === 'refused') return misdeedOfRefusal(outcome.error, gateway.events);
  for (const [fileName, content] of contents) {
    if (gateway.contents.get(fileName)?.equals(content) !== true) return `took another ${fileName}`;
  }
  const { header } = outcome.staged;
  if (gateway.contents.size !== contents.size) return 'took other files';
  return header.signedBy === undefined || header.name !== 'release-2' ? 'took another header' : undefined;
}

const beforeAnyPayload = new Set(['signature-invalid', 'artifact-unsigned', 'checksum-mismatch', 'artifact-version']);

function misdeedOfRefusal(error: AgentError, events: readonly string[]): string | undefined {
  if (beforeAnyPayload.has(error.code) && events.length > 0) return `${error.code} only after ${events.join(', ')}`;
  const expected = error.code === 'firmware-truncated' ? 'protocol' : 'refused';
  return error.exit === expected ? undefined : `ended as ${error.exit}: ${error.message}`;
}

export function flipped(bytes: Buffer, at: number, bits: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ bits;
  return copy;
}
