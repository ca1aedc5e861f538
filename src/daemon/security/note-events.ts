import { createHash } from 'node:crypto';

import type { LoadedConfig } from '../../config/load-config.ts';
import type { SecurityEventId } from '../../control/security/security-event-meanings.ts';
import { HelperError } from '../../helper/errors.ts';
import { AgentError } from '../../system/errors.ts';
import type { Trust } from '../wiring/trust.ts';
import type { SecurityNotes } from './security-log.ts';

/** What the code of a refusal means for security. */
const refusals: Readonly<Record<string, SecurityEventId>> = {
  'signature-invalid': 'signature-refused',
  'artifact-unsigned': 'signature-refused',
  'image-unsigned': 'signature-refused',
  'checksum-mismatch': 'signature-refused',
  'digest-mismatch': 'signature-refused',
  'manifest-mismatch': 'signature-refused',
  'key-revoked': 'key-refused',
  'key-expired': 'key-refused',
  'key-not-yet-valid': 'key-refused',
  'no-trusted-key': 'key-refused',
  'release-revoked': 'release-refused',
  downgrade: 'downgrade-refused',
  'name-mismatch': 'name-refused',
  'trust-list-malformed': 'trust-list-refused',
  'trust-list-old': 'trust-list-refused',
  'trust-no-keys': 'trust-list-refused',
};

/** Nothing, where what failed is no matter of security. */
export async function noteRefusal(security: SecurityNotes, { code, message }: AgentError): Promise<void> {
  const id = refusals[code];
  if (id !== undefined) await security.record(id, `${message} (${code})`);
}

/** What is refused on the way is recorded, and thrown on. */
export async function notingRefusals<T>(security: SecurityNotes, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentError) await noteRefusal(security, error);
    throw error;
  }
}

interface Forced {
  readonly force?: boolean | undefined;
  readonly allowDowngrade?: boolean | undefined;
}

export async function noteForce(
  security: SecurityNotes,
  what: string,
  { force, allowDowngrade }: Forced,
): Promise<void> {
  if (force === true) await security.record('force-used', `${what} --force`);
  if (allowDowngrade === true) await security.record('force-used', `${what} --allow-downgrade`);
}

/** At each start, and after each reading: what decides what is installed, compared with what it was. */
export async function noteWhatCounts(
  security: SecurityNotes,
  { path, digest }: Pick<LoadedConfig, 'path' | 'digest'>,
  trust: Pick<Trust, 'keyring'>,
  signal: AbortSignal,
): Promise<void> {
  await security.compare('configuration-changed', digest, `${path}, now ${digest}`);
  await noteKeys(security, trust, signal);
}

/** Also when a list took effect: at the next start it would look as if somebody had changed them then. */
export async function noteKeys(
  security: SecurityNotes,
  trust: Pick<Trust, 'keyring'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    const { keys, revoked, list, damage } = await trust.keyring(signal);
    const trusted = keys.filter(({ fingerprint }) => revoked?.keys.has(fingerprint) !== true);
    const names = trusted.map(({ name, fingerprint }) => `${name} ${fingerprint}`);
    // In the form in which earlier agents kept it, so that an update of the agent is no change of keys.
    const all = JSON.stringify([trusted.map(({ fingerprint }) => fingerprint).toSorted(), null, []]);
    const state = createHash('sha256').update(all).digest('hex');
    const doubt = damage !== undefined && list === undefined ? 'what was revoked is not known any more: ' : '';
    const told = names.length === 0 ? 'no key is trusted' : names.join(', ');
    await security.compare('keys-changed', state, `${doubt}${told}`);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    if (error instanceof HelperError) return; // of the keys nothing is known, and nothing can be installed
    await security.compare('keys-changed', error.code, `the keys cannot be read: ${error.message}`);
  }
}
