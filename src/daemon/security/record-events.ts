import { createHash } from 'node:crypto';

import type { LoadedConfig } from '../../config/load-config.ts';
import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { AgentError, mapError } from '../../system/errors.ts';
import type { Trust } from '../wiring/trust.ts';
import type { SecurityRecorder } from './security-log.ts';

/** The security event of the code of a refusal. */
const refusals: Readonly<Record<string, SecurityEventId>> = {
  'signature-invalid': 'signature-rejected',
  'artifact-unsigned': 'signature-rejected',
  'image-unsigned': 'signature-rejected',
  'checksum-mismatch': 'signature-rejected',
  'digest-mismatch': 'signature-rejected',
  'manifest-mismatch': 'signature-rejected',
  'key-revoked': 'key-rejected',
  'key-expired': 'key-rejected',
  'key-not-yet-valid': 'key-rejected',
  'no-trusted-key': 'key-rejected',
  'release-revoked': 'release-rejected',
  downgrade: 'downgrade-rejected',
  'name-mismatch': 'name-rejected',
  'trust-list-malformed': 'trust-list-rejected',
  'trust-list-old': 'trust-list-rejected',
  'trust-no-keys': 'trust-list-rejected',
};

/** Records a refusal; does nothing for an error that does not concern security. */
export async function recordRejection(security: SecurityRecorder, { code, message }: AgentError): Promise<void> {
  const id = refusals[code];
  if (id !== undefined) await security.record(id, `${message} (${code})`);
}

/** Does the work; records a refusal in it, and throws it on. */
export async function recordingRejections<T>(security: SecurityRecorder, work: () => Promise<T>): Promise<T> {
  return mapError(work(), async (error) => {
    if (error instanceof AgentError) await recordRejection(security, error);
    return error;
  });
}

interface Forced {
  readonly force?: boolean | undefined;
  readonly allowDowngrade?: boolean | undefined;
}

export async function recordForce(
  security: SecurityRecorder,
  what: string,
  { force, allowDowngrade }: Forced,
): Promise<void> {
  if (force === true) await security.record('force-used', `${what} --force`);
  if (allowDowngrade === true) await security.record('force-used', `${what} --allow-downgrade`);
}

/**
 * Compares configuration and keys, which decide what is installed, with those seen before. Called at each start, and
 * after each reading of the configuration.
 */
export async function recordTrustChanges(
  security: SecurityRecorder,
  { path, digest }: Pick<LoadedConfig, 'path' | 'digest'>,
  trust: Pick<Trust, 'keyring'>,
  signal: AbortSignal,
): Promise<void> {
  await security.compare('configuration-changed', digest, `${path}, now ${digest}`);
  await recordKeys(security, trust, signal);
}

/**
 * Compares the keys with those seen before. Also called when a list took effect, so that the next start does not report
 * this as a foreign change.
 */
export async function recordKeys(
  security: SecurityRecorder,
  trust: Pick<Trust, 'keyring'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    const { keys, revoked, list, damage } = await trust.keyring(signal);
    const trusted = keys.filter(({ fingerprint }) => revoked?.keys.has(fingerprint) !== true);
    const names = trusted.map(({ name, fingerprint }) => `${name} ${fingerprint}`);
    const all = JSON.stringify(trusted.map(({ fingerprint }) => fingerprint).toSorted());
    const state = createHash('sha256').update(all).digest('hex');
    const doubt = damage !== undefined && list === undefined ? 'the revocations were lost: ' : '';
    const told = names.length === 0 ? 'no key is trusted' : names.join(', ');
    await security.compare('keys-changed', state, `${doubt}${told}`);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    await security.compare('keys-changed', error.code, `the keys cannot be read: ${error.message}`);
  }
}
