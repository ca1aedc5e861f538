import { AgentError } from '../../system/errors.ts';
import { isoTime } from '../choice/order.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { UpdateError } from '../errors.ts';
import type { Attempt } from '../journal/state.ts';
import type { HeldBack } from '../outcome.ts';
import type { SlotName } from '../ports.ts';
import type { HookName } from './hook-input.ts';

/**
 * Asks a hook for its consent. Undefined: it consents, or is not asked, since a person forced the update or goes back.
 * Throws `vetoed`.
 */
export async function askConsent(
  hook: HookName,
  { attempt, slot }: { readonly attempt: Attempt; readonly slot: SlotName },
  { askHook, journal }: Pick<UpdatePorts, 'askHook' | 'journal'>,
  signal: AbortSignal,
): Promise<HeldBack | undefined> {
  if (attempt.forced === true || attempt.by === 'rollback') return undefined;
  try {
    await askHook?.(hook, { attempt, slot, installed: journal.state.installed }, signal);
    return undefined;
  } catch (error) {
    if (!(error instanceof UpdateError) || error.code !== 'not-now') throw error;
    return { kind: 'held-back', version: attempt.version.name, code: error.code, reason: error.message };
  }
}

interface Beginning {
  readonly attempt: Attempt;
  readonly slot: SlotName;
  /** Begins the attempt in the journal. */
  readonly begin: () => Promise<unknown>;
}

/** Asks before anything is transferred. A vetoed version counts as an attempt, with its end. */
export async function consentToInstall(
  { attempt, slot, begin }: Beginning,
  ports: Pick<UpdatePorts, 'askHook' | 'journal' | 'clock'>,
  signal: AbortSignal,
): ReturnType<typeof askConsent> {
  try {
    return await askConsent('before_install', { attempt, slot }, ports, signal);
  } catch (error) {
    if (error instanceof AgentError) {
      await begin();
      const { code, message: reason } = error;
      await ports.journal.append({
        type: 'failed',
        at: isoTime(ports.clock),
        failure: { outcome: 'refused', code, reason },
      });
    }
    throw error;
  }
}
