import { AgentError } from '../../system/errors.ts';
import { overriddenBy } from '../journal/naming.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { Attempt, PhaseOf, UpdateState } from '../journal/state.ts';
import type { Version } from '../ports.ts';
import { faultOfSilence } from '../trial/blame.ts';
import { fellBack } from '../trial/recover.ts';
import type { UpdatePorts } from './order.ts';
import { isoTime } from './order.ts';
import type { HoldCode, Plan } from './plan.ts';

/** Waiting ends these by itself, and the staging goes on. */
const passing: ReadonlySet<HoldCode> = new Set([
  'cooling-down',
  'outside-window',
  'outside-reboot-window',
  'metered-link',
  'clock-not-set',
  'taking-turns',
  'held-by-hand',
]);

const NAMED_SINCE = 'the service has named another version since it was installed';
const NOT_NAMED = 'the service does not name it any more';

type Ports = Pick<UpdatePorts, 'journal' | 'clock'>;
type EndPorts = Pick<UpdatePorts, 'journal' | 'clock' | 'bootloader' | 'machine' | 'settings'>;
type WaitPorts = EndPorts & Pick<UpdatePorts, 'log'>;

/** A paused staging with which the plan does not go on has ended: every attempt that was begun gets its end. */
export async function endUnwantedStaging(plan: Plan, ports: Ports): Promise<void> {
  if (ports.journal.state.phase.kind !== 'staging') return;
  switch (plan.kind) {
    case 'install':
      return;
    case 'held-back':
      if (!passing.has(plan.code)) await withdraw(plan.code, plan.reason, ports);
      return;
    case 'up-to-date':
    case 'nothing-offered':
    case 'reconcile':
      await withdraw('withdrawn', NOT_NAMED, ports);
  }
}

/**
 * A firmware that waits for its boot is not booted where the service names another one, or a list of keys, by now: than it, or, of
 * one from a file, than when that was installed. Where the service cannot be asked, it counts as what it named last.
 */
export async function endUnwantedWait(look: () => Promise<Version | undefined>, ports: WaitPorts, signal: AbortSignal) {
  const { journal, log } = ports;
  const phase = await findWaiting(ports, signal);
  if (phase === undefined) return;
  let reason: string | undefined;
  try {
    reason = whyUnwanted(journal.state, phase.attempt, await look());
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const { name } = phase.attempt.version;
    log.warn({ code: error.code }, `whether ${name} is still wanted cannot be asked: ${error.message}`);
  }
  if (reason !== undefined) await endWait(phase, { code: 'withdrawn', reason }, ports, signal);
}

/** A person brings a list of keys and revocations: it may forbid what waits, which can be installed again afterwards. */
export async function giveWayToList(ports: EndPorts, signal: AbortSignal): Promise<boolean> {
  const phase = await findWaiting(ports, signal);
  if (phase === undefined) return false;
  const reason = 'a person installed a list of keys and revocations before it was booted';
  await endWait(phase, { code: 'overruled', reason }, ports, signal);
  return true;
}

/**
 * What has not run ends here. What was tried by now, and fell back, has failed, whatever else became of it: settling goes on with
 * that, and knows by itself what the slot said when it was left.
 */
async function endWait(
  phase: PhaseOf<'staged' | 'trial'>,
  { code, reason }: { readonly code: string; readonly reason: string },
  ports: EndPorts,
  signal: AbortSignal,
): Promise<void> {
  const { journal, bootloader, settings } = ports;
  if (phase.kind === 'trial' && (await hasRun(phase, ports))) {
    const { slots } = await bootloader.inspect(signal);
    if (slots[phase.slot].lastWord !== undefined) return;
    const failure = fellBack(phase);
    const fault = faultOfSilence(journal.state, settings.attempts);
    await journal.append({ type: 'rollback-started', ...failure, reason: `${failure.reason}; ${reason}`, fault });
    return;
  }
  await bootloader.markUnbootable(phase.slot, signal);
  await withdraw(code, reason, ports);
}

/** The machine was rebooted since it was armed; what boots by an argument alone, with that. */
async function hasRun(phase: PhaseOf<'trial'>, { bootloader, machine }: EndPorts): Promise<boolean> {
  const wasMissed = bootloader.trialRebootArgument !== undefined && phase.rebootAsked === false;
  return !wasMissed && (await machine.bootId()) !== phase.bootId;
}

/** A firmware that was installed, and has not booted yet. */
async function findWaiting(
  { journal, bootloader }: Pick<UpdatePorts, 'journal' | 'bootloader'>,
  signal: AbortSignal,
): Promise<PhaseOf<'staged' | 'trial'> | undefined> {
  const { phase } = journal.state;
  if ((phase.kind !== 'staged' && phase.kind !== 'trial') || phase.attempt.by === 'rollback') return undefined;
  if (!hasSlotPayload(phase.firmware) || (await bootloader.bootedSlot(signal)) === phase.slot) return undefined;
  return phase;
}

/** Pure. Undefined: it is wanted. A person's file is overruled by a new word of the service alone, not by its silence. */
function whyUnwanted(state: UpdateState, { by, version }: Attempt, offered: Version | undefined): string | undefined {
  if (by !== 'file') return offered?.id === version.id ? undefined : NOT_NAMED;
  const { overrides } = overriddenBy(state);
  const isNew = overrides !== undefined && offered !== undefined && offered.id !== overrides;
  return isNew ? NAMED_SINCE : undefined;
}

/** Ends the attempt in the journal. Its slot is, or stays, unbootable. */
export async function withdraw(code: string, reason: string, { journal, clock }: Ports): Promise<void> {
  await journal.append({ type: 'withdrawn', at: isoTime(clock), code, reason });
}
