import type { KeyObject } from 'node:crypto';

import type { TrustListFile } from '../../../../src/firmware/trust/trust-list.ts';
import { buildArtifact } from '../artifact/build-artifact.ts';
import type { ArtifactOptions } from '../artifact/build-artifact.ts';

export const fingerprint = (digit: string): string => `sha256:${digit.repeat(64)}`;

export function listFile(more: Partial<TrustListFile> = {}): TrustListFile {
  const revoked = { keys: [], releases: [] };
  return { format: 'thing-trust', version: 1, number: 1, issued: '2026-11-22T10:00:00Z', keys: [], revoked, ...more };
}

export function listBytes(more: Partial<TrustListFile> = {}): Buffer {
  return Buffer.from(JSON.stringify(listFile(more)));
}

export async function listArtifact(
  content: Uint8Array,
  key: KeyObject | undefined,
  more: Partial<ArtifactOptions> = {},
): Promise<Buffer> {
  const files = [{ name: 'trust.json', content }];
  return buildArtifact({ name: 'trust-1', devices: ['gw'], type: 'thing-trust', files, key, ...more });
}
