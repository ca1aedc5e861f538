import type { CheckReport, InstalledReport } from '../../control/reports.ts';
import { ownVersion } from '../../update/journal/naming.ts';
import { hasSlotPayload } from '../../update/journal/state.ts';
import type { Installed, Phase, PhaseOf, UpdateState } from '../../update/journal/state.ts';
import type { InstallPlan } from '../../update/policy/plan.ts';
import type { CheckResult } from '../../update/policy/update-checker.ts';
import type { SlotName } from '../../update/ports.ts';

/** The names of the trusted keys, by fingerprint. */
export type KeyNames = ReadonlyMap<string, string>;

/**
 * Returns the installed version with its own name and id, even if a trust list is the version that the service knows.
 */
export function installedReport(
  installed: Installed | undefined,
  state: UpdateState,
  keyNames?: KeyNames,
): InstalledReport | undefined {
  if (installed === undefined) return undefined;
  const { digest, signedBy, at, factory } = installed;
  const { id: versionId, name: versionName } = ownVersion(installed, state);
  // a system without slots counts as slot A in the journal
  const slot = hasSlotPayload(installed) ? installed.slot : undefined;
  const keyName = keyNames?.get(signedBy ?? '');
  return {
    versionId,
    versionName,
    digest,
    slot,
    signedBy,
    at,
    ...(keyName && { keyName }),
    ...(factory && { factory }),
  };
}

/** `booted`: the running slot, on a gateway with slots. */
export function checkReport(
  state: UpdateState,
  look: CheckResult,
  booted?: SlotName,
  keyNames?: KeyNames,
): CheckReport {
  const { offered, plan } = look;
  const isList = 'trustList' in plan && plan.trustList;
  const installed = installedReport(state.installed, state, keyNames);
  const inProgress = describeInProgress(state.phase, offered?.id, booted);
  if (inProgress !== undefined && plan.kind === 'install')
    return { installed, offered, plan: 'deferred', reason: inProgress };
  const planned = plan.kind === 'reconcile' ? 'up-to-date' : plan.kind;
  const lastAttempt = planned === 'install' ? lastFailure(state.lastOutcome, offered?.name) : undefined;
  const code = plan.kind === 'deferred' ? { code: plan.code } : undefined;
  const known = { ...code, ...(isList && { trustList: true }), ...(lastAttempt && { lastAttempt }) };
  return { installed, offered, plan: planned, reason: describeCheck(look, ''), ...known };
}

/** Returns the last attempt if it was for this version and failed. */
function lastFailure(last: UpdateState['lastOutcome'], name: string | undefined): UpdateState['lastOutcome'] {
  return last?.version === name && last?.outcome !== 'installed' && last?.by !== 'file' ? last : undefined;
}

function describeInProgress(
  phase: Phase,
  offeredId: string | undefined,
  booted: SlotName | undefined,
): string | undefined {
  if (phase.kind === 'rolling-back') return `${phase.attempt.version.name} is being rolled back`;
  if (phase.kind === 'idle' || phase.kind === 'lost' || phase.attempt.version.id !== offeredId) return undefined;
  return phase.kind === 'staging' ? undefined : describeStaged(phase, waitsForReboot(phase, booted)).idleReason;
}

function describeInstall(retry: InstallPlan['retry'], when: string): string {
  if (retry === undefined) return 'can be installed';
  const { gaveUp, attempts } = retry;
  return `is tried again${when}${gaveUp > 0 && gaveUp < attempts ? ` (attempt ${gaveUp + 1} of ${attempts})` : ''}`;
}

/** Describes the result of a check. `when`: the time at which the agent tries a version again that failed. */
export function describeCheck(look: CheckResult | undefined, when = ' at the next check'): string {
  if (look === undefined) return 'no update check since the agent started';
  const { plan } = look;
  switch (plan.kind) {
    case 'install':
      return plan.trustList === true
        ? `trust list ${plan.version.name} is offered; it is never deferred`
        : `${plan.version.name} ${describeInstall(plan.retry, when)}`;
    case 'up-to-date':
      return plan.trustList === true
        ? `trust list ${plan.version} is in effect, as assigned by the service`
        : `${plan.version} is installed, as assigned by the service`;
    case 'reconcile':
      return `${plan.version.name} is already installed, from a file`;
    case 'nothing-offered':
      return 'the service offers no version';
    case 'deferred':
      return `${plan.version} is deferred: ${plan.reason}`;
  }
}

/** True if the slot is armed while the old one still runs: its trial begins with the boot. */
export function waitsForReboot(phase: Phase, booted: SlotName | undefined): boolean {
  return phase.kind === 'trial' && hasSlotPayload(phase.firmware) && booted !== undefined && booted !== phase.slot;
}

/** Describes a version that is staged or on trial. */
export function describeStaged({ kind, attempt, slot, firmware }: PhaseOf<'staged' | 'trial'>, awaitsReboot: boolean) {
  const place = hasSlotPayload(firmware) ? ` in slot ${slot}` : '';
  const { version, by } = attempt;
  if (kind === 'trial' && !awaitsReboot)
    return { idleReason: `${version.name} is on trial${place}`, idleCode: 'trial' } as const;
  const what = by === 'rollback' ? `the rollback to ${version.name}` : version.name;
  return { idleReason: `${what} is staged${place}`, idleCode: 'staged' } as const;
}
