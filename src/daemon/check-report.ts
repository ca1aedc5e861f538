import type { CheckReport, InstalledReport } from '../control/reports.ts';
import { ownVersion } from '../update/journal/naming.ts';
import { hasSlotPayload } from '../update/journal/state.ts';
import type { Installed, Phase, UpdateState } from '../update/journal/state.ts';
import type { CheckResult } from '../update/policy/update-checker.ts';

/**
 * Returns the installed version with its own name and id. The service may assign a trust list, which is not reported
 * here.
 */
export function installedReport(installed: Installed | undefined, state: UpdateState): InstalledReport | undefined {
  if (installed === undefined) return undefined;
  const { digest, signedBy, at, factory } = installed;
  const { id: versionId, name: versionName } = ownVersion(installed, state);
  // a system without slots counts as slot A in the journal
  const slot = hasSlotPayload(installed) ? installed.slot : undefined;
  return { versionId, versionName, digest, slot, signedBy, at, ...(factory && { factory }) };
}

export function checkReport(state: UpdateState, look: CheckResult): CheckReport {
  const { offered, plan } = look;
  const installed = installedReport(state.installed, state);
  const underWay = describeUnderWay(state.phase, offered?.id);
  if (underWay !== undefined && plan.kind === 'install')
    return { installed, offered, plan: 'deferred', reason: underWay };
  const planned = plan.kind === 'reconcile' ? 'up-to-date' : plan.kind;
  const lastAttempt = planned === 'install' ? lastFailure(state.lastOutcome, offered?.name) : undefined;
  const isList = 'trustList' in plan && plan.trustList;
  const known = { ...(isList && { trustList: true }), ...(lastAttempt && { lastAttempt }) };
  return { installed, offered, plan: planned, reason: describeCheck(look), ...known };
}

/** The last attempt, if it was of the version of this name, and did not install it. */
function lastFailure(last: UpdateState['lastOutcome'], name: string | undefined): UpdateState['lastOutcome'] {
  return last?.version === name && last?.outcome !== 'installed' && last?.by !== 'file' ? last : undefined;
}

function describeUnderWay(phase: Phase, offeredId: string | undefined): string | undefined {
  if (phase.kind === 'rolling-back') return `${phase.attempt.version.name} is being left: agent status`;
  if ((phase.kind !== 'staged' && phase.kind !== 'trial') || phase.attempt.version.id !== offeredId) return undefined;
  return 'it is staged or on trial already: agent status';
}

export function describeCheck(look: CheckResult | undefined): string {
  if (look === undefined) return 'the service was not asked for a version yet';
  const { plan } = look;
  switch (plan.kind) {
    case 'install':
      return plan.trustList === true
        ? `${plan.version.name} is a trust list, which is not deferred`
        : `version ${plan.version.name} is to be installed`;
    case 'up-to-date':
      return plan.trustList === true
        ? `the trust list ${plan.version} is in effect, as the service wants`
        : `version ${plan.version} is installed, as the service wants`;
    case 'reconcile':
      return `version ${plan.version.name} is installed already, from a file`;
    case 'nothing-offered':
      return 'the service offers nothing to install';
    case 'deferred':
      return `version ${plan.version} is deferred: ${plan.reason}`;
  }
}
