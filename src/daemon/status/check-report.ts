import type { CheckReport, InstalledReport } from '../../control/reports.ts';
import { ownVersion } from '../../update/journal/naming.ts';
import { hasSlotPayload } from '../../update/journal/state.ts';
import type { Installed, Phase, UpdateState } from '../../update/journal/state.ts';
import type { CheckResult } from '../../update/policy/update-checker.ts';

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

export function checkReport(state: UpdateState, look: CheckResult, keyNames?: KeyNames): CheckReport {
  const { offered, plan } = look;
  const isList = 'trustList' in plan && plan.trustList;
  const installed = installedReport(state.installed, state, keyNames);
  const inProgress = describeInProgress(state.phase, offered?.id);
  if (inProgress !== undefined && plan.kind === 'install')
    return { installed, offered, plan: 'deferred', reason: inProgress };
  const planned = plan.kind === 'reconcile' ? 'up-to-date' : plan.kind;
  const lastAttempt = planned === 'install' ? lastFailure(state.lastOutcome, offered?.name) : undefined;
  const code = plan.kind === 'deferred' ? { code: plan.code } : undefined;
  const known = { ...code, ...(isList && { trustList: true }), ...(lastAttempt && { lastAttempt }) };
  return { installed, offered, plan: planned, reason: describeCheck(look), ...known };
}

/** Returns the last attempt if it was for this version and failed. */
function lastFailure(last: UpdateState['lastOutcome'], name: string | undefined): UpdateState['lastOutcome'] {
  return last?.version === name && last?.outcome !== 'installed' && last?.by !== 'file' ? last : undefined;
}

function describeInProgress(phase: Phase, offeredId: string | undefined): string | undefined {
  if (phase.kind === 'rolling-back') return `${phase.attempt.version.name} is being rolled back`;
  if (phase.kind === 'idle' || phase.kind === 'lost' || phase.attempt.version.id !== offeredId) return undefined;
  return phase.kind === 'staging' ? undefined : 'it is already staged or on trial';
}

/** Returns the result of a check; undefined if there was none yet. */
export function describeCheck(look: CheckResult | undefined): string {
  if (look === undefined) return 'the service has not been checked yet';
  const { plan } = look;
  switch (plan.kind) {
    case 'install':
      return plan.trustList === true
        ? `trust list ${plan.version.name} is offered; it is never deferred`
        : `${plan.version.name} can be installed`;
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
