import type { IdleCode } from '../../control/gateway-state.ts';
import type { HoldReport, StatusReport } from '../../control/reports.ts';
import type { Phase, PhaseOf } from '../../update/journal/state.ts';
import type { CheckResult } from '../../update/policy/update-checker.ts';
import { describeCheck, describeStaged } from './check-report.ts';
import type { StatusInput } from './gather-status.ts';

type IdleInput = StatusInput & { readonly hold: HoldReport | undefined };

type Idle = Required<Pick<StatusReport, 'idleReason' | 'idleCode'>>;

/** Returns the reason for not installing anything now, as text and as code. */
export function idleness(phase: Phase, awaitsReboot: boolean, input: IdleInput): Idle {
  const around = { ...input, lastLook: afterHook(input) };
  const { obstacle, activity, booted } = around;
  if (obstacle !== undefined) return { idleReason: obstacle, idleCode: 'update-impossible' };
  switch (phase.kind) {
    case 'idle':
      return idleOf(around);
    case 'lost': {
      const stays = booted === undefined ? 'the installed version stays' : 'a committed slot stays';
      return { idleReason: `the journal of updates cannot be read; ${stays}`, idleCode: 'journal-lost' };
    }
    case 'staging':
      if (activity !== undefined) return { idleReason: describeStaging(phase, around), idleCode: 'staging' };
      return deferralOf(phase, around) ?? { idleReason: describeStaging(phase, around), idleCode: 'interrupted' };
    case 'rolling-back': {
      const { attempt, reason } = phase;
      const { version, by } = attempt;
      const what =
        by === 'rollback' ? `the rollback to ${version.name} is being undone` : `${version.name} is being rolled back`;
      return { idleReason: `${what}: ${reason}`, idleCode: 'rolling-back' };
    }
    case 'staged':
    case 'trial':
      return describeStaged(phase, awaitsReboot);
  }
}

/** Returns the last check, with the deferral by the hook that was called for it. */
function afterHook({ lastLook, hookPause }: IdleInput): CheckResult | undefined {
  const plan = lastLook?.plan;
  if (plan?.kind !== 'install' || plan.trustList === true || hookPause?.hook !== 'before_install') return lastLook;
  const deferral = { code: 'hook-deferred', reason: hookPause.reason } as const;
  return { offered: lastLook?.offered, plan: { kind: 'deferred', version: plan.version.name, ...deferral } };
}

/** Returns the reason that defers an interrupted update, which comes before the interruption. */
function deferralOf(
  { attempt }: PhaseOf<'staging'>,
  { hold, isConfigUnusable, lastLook }: IdleInput,
): Idle | undefined {
  const deferred = (idleCode: IdleCode, reason: string): Idle => ({
    idleReason: `${attempt.version.name} is deferred: ${reason}`,
    idleCode,
  });
  if (hold !== undefined) return deferred('on-hold', 'updates are on hold');
  if (isConfigUnusable) return deferred('config-unusable', 'the configuration file cannot be used');
  if (lastLook?.plan.kind === 'deferred') return deferred(lastLook.plan.code, lastLook.plan.reason);
  return undefined;
}

/** Describes an update that is being written, or whose writing was interrupted. */
function describeStaging({ attempt, slot }: PhaseOf<'staging'>, { activity, booted }: IdleInput): string {
  const { version, by } = attempt;
  const place = booted === undefined ? '' : ` to slot ${slot}`;
  if (activity !== undefined) return `${version.name} is being ${place === '' ? 'staged' : `written${place}`}`;
  if (by === 'file') return `the installation of ${version.name} from a file was interrupted`;
  return `the download of ${version.name}${place} was interrupted`;
}

/** The result of the last check, or the reason for having none. */
function idleOf({ lastLook, daemon, service, hold }: IdleInput): Idle {
  if (lastLook !== undefined) return { idleReason: describeCheck(lastLook), idleCode: codeOf(lastLook) };
  if (daemon === false) return { idleReason: 'the daemon is not running', idleCode: 'no-daemon' };
  if (daemon === 'unresponsive') return { idleReason: 'the daemon is not responding', idleCode: 'daemon-unresponsive' };
  if (service.lastError !== undefined)
    return { idleReason: 'no update check has succeeded since the agent started', idleCode: 'service-failing' };
  if (hold !== undefined) return { idleReason: 'updates are on hold', idleCode: 'on-hold' };
  return { idleReason: describeCheck(undefined), idleCode: 'not-asked' };
}

function codeOf({ plan }: CheckResult): IdleCode {
  if (plan.kind === 'deferred') return plan.code;
  if (plan.kind === 'install') return 'update-available';
  return plan.kind === 'reconcile' ? 'up-to-date' : plan.kind;
}
