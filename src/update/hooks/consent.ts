import { AgentError, valueOrError } from '../../system/errors.ts';
import { UpdateError } from '../errors.ts';
import type { Attempt, FirmwareRecord } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { Deferred } from '../outcome.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { SlotName } from '../ports.ts';
import type { HookName } from './hooks.ts';

/**
 * Asks a hook for its consent. Returns undefined if it consents, or is not called, since an operator forced the update
 * or rolls back. Throws `hook-rejected`.
 */
export async function askConsent(
  hook: HookName,
  { attempt, slot, firmware }: Subject,
  { askHook, journal, signal }: Pick<UpdatePorts, 'askHook' | 'journal' | 'signal'>,
): Promise<Deferred | undefined> {
  if (attempt.forced === true || attempt.by === 'rollback') return undefined;
  try {
    const { installed, versions } = journal.state;
    const digest = firmware?.digest ?? entryOf(versions, attempt)?.digest;
    await askHook?.(hook, { attempt, slot, digest, installed }, signal);
    return undefined;
  } catch (error) {
    if (!(error instanceof UpdateError) || error.code !== 'hook-deferred') throw error;
    return { kind: 'deferred', version: attempt.version.name, code: error.code, reason: error.message };
  }
}

interface Subject {
  readonly attempt: Attempt;
  readonly slot: SlotName;
  /** Omitted before its header was read. */
  readonly firmware?: Pick<FirmwareRecord, 'digest'>;
}

interface Beginning extends Subject {
  /** Begins the attempt in the journal. */
  readonly begin: () => Promise<unknown>;
}

/** Asks before anything is transferred. A hook-rejected version counts as an attempt, with its end. */
export async function consentToInstall(
  { attempt, slot, begin }: Beginning,
  ports: Pick<UpdatePorts, 'askHook' | 'journal' | 'clock' | 'signal'>,
): ReturnType<typeof askConsent> {
  const answer = await valueOrError(askConsent('before_install', { attempt, slot }, ports));
  if (!(answer instanceof AgentError)) return answer;
  await begin();
  const failure = { outcome: 'refused', code: answer.code, reason: answer.message } as const;
  await ports.journal.append({ type: 'failed', at: isoTime(ports.clock), failure });
  throw answer;
}
