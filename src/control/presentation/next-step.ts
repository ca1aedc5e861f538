import { stateExitCodes, stateOf, problemsOf } from '../gateway-state.ts';
import type { DeferralCode, GatewayState, Problem } from '../gateway-state.ts';
import { partialFlashAdvice } from '../partial-flash.ts';
import type { NextStep, StatusReport } from '../reports.ts';

/**
 * The step for a state: `act` is needed, `or` is possible. If the state needs attention, `or` is an alternative to `act`,
 * and otherwise follows "nothing; to".
 */
interface Step extends Pick<NextStep, 'operation' | 'version'> {
  readonly act?: string;
  readonly or?: string;
}

type StepOf = (report: StatusReport) => Step;

/**
 * Returns what you need to do, or can do, about the state of a gateway. `stateExitCodes` decides whether you need to
 * act, as for `agent status --exit-code`. Pure.
 */
export function nextStepOf(report: StatusReport): NextStep {
  const found = report.problems ?? problemsOf(report);
  const state = report.state ?? stateOf({ ...report, problems: found });
  const { act = 'wait', or, ...operation } = stepOf(report, state, found);
  const isNeeded = stateExitCodes[state] > 0;
  const [first, join] = isNeeded ? [act, ', or '] : ['nothing', '; to '];
  return { isNeeded, text: or === undefined ? first : `${first}${join}${or}`, ...operation };
}

function stepOf(report: StatusReport, state: GatewayState, [worst]: readonly Problem[]): Step {
  if (report.activity !== undefined && state !== 'on-trial') return follow;
  const isProblem = state === 'broken' || state === 'needs-attention' || worst === 'daemon-starting';
  if (worst !== undefined && isProblem) return problemSteps[worst](report);
  return stateSteps[state](report);
}

const follow: Step = { or: 'follow it: agent status --watch' };
const force: Step = { or: 'install it anyway: agent --update-now --force' };
const reinstall: Step = { or: 'install it: agent --update-now', operation: 'update' };
const resume: Step = { or: 'resume updates: agent resume', operation: 'resume' };
const decide: Step = { or: 'decide now: agent commit, or agent rollback', operation: 'commit' };

const stateSteps: Readonly<Record<GatewayState, StepOf>> = {
  ok: ofIdle,
  busy: ofIdle,
  'on-trial': () => decide,
  staged: ofStaged,
  interrupted: ofInterrupted,
  'rolling-back': ({ daemon }) =>
    daemon ? follow : { act: 'finish the rollback: agent --update-now', operation: 'update' },
  'on-hold': () => resume,
  'needs-attention': ofIdle,
  broken: () => doctor,
};

const updateNow: Step = { act: 'agent --update-now', operation: 'update' };
const doctor: Step = { act: 'agent doctor' };

function ofStaged({ rebootDeferral, hookDeferral, booted, daemon, hold }: StatusReport): Step {
  if (daemon && hold !== undefined) return { act: 'wait for the end of the hold', ...resume };
  if (daemon && rebootDeferral !== undefined)
    return { act: 'wait for the reboot window', or: 'reboot into it now: agent reboot', operation: 'reboot' };
  if (daemon && hookDeferral !== undefined)
    return {
      act: 'wait until the hook allows it',
      or: 'call the hook now: agent --update-now; to skip it, add --force',
      operation: 'update',
    };
  if (booted !== undefined) return { act: 'agent reboot', operation: 'reboot' };
  return daemon ? { act: 'wait for the next check' } : updateNow;
}

function ofInterrupted(report: StatusReport): Step {
  const { daemon, idleCode, lastOutcome } = report;
  if (idleCode !== 'interrupted') return ofIdle(report);
  if (daemon) return { act: 'wait for the next check', or: 'resume it now: agent --update-now', operation: 'update' };
  return lastOutcome?.by === 'file' ? { act: 'agent install FILE', operation: 'update' } : updateNow;
}

function ofIdle({ idleCode, quarantine, lastOutcome: last }: StatusReport): Step {
  if (idleCode === 'update-available' || idleCode === 'not-asked')
    return { or: 'check and install now: agent --update-now', operation: 'update' };
  if (idleCode === 'quarantined') {
    const blocked = quarantine.find(({ isOffered }) => isOffered);
    return blocked === undefined ? {} : unblock(blocked, quarantine);
  }
  const step = deferralSteps[idleCode ?? ''];
  const rolledBack = last?.code === 'manual' ? quarantine.find(({ version }) => version === last.version) : undefined;
  return step ?? (rolledBack === undefined ? {} : unblock(rolledBack, quarantine));
}

type Quarantine = StatusReport['quarantine'];

/** Names the release by its digest if others have the same name. */
function unblock({ version: name, digest }: Quarantine[number], quarantine: Quarantine): Step {
  const version = quarantine.filter((other) => other.version === name).length > 1 ? digest : name;
  return { or: `allow ${name} again: agent unblock ${version}`, operation: 'unblock', version };
}

const deferralSteps: Readonly<Partial<Record<string, Step>>> = {
  'attempts-exhausted': { or: 'try again: agent --update-now --force' },
  'retry-backoff': { or: 'try again now: agent --update-now', operation: 'update' },
  'outside-window': force,
  'outside-reboot-window': { or: 'reboot into it now: agent reboot', operation: 'reboot' },
  'metered-connection': force,
  'config-unusable': { or: 'see why: agent config check' },
  'clock-unsynchronized': { or: 'see why: agent doctor' },
  'hook-deferred': force,
  'manual-override': { or: 'install the assigned version: agent --update-now --force' },
  flapping: { or: 'install it now: agent --update-now', operation: 'update' },
  'on-hold': resume,
  cancelled: { or: 'install it: agent --update-now', operation: 'update' },
} satisfies Record<Exclude<DeferralCode, 'quarantined'>, Step>;

const problemSteps: Readonly<Record<Problem, StepOf>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.find(({ writing }) => writing !== undefined);
    return { act: half === undefined ? 'agent mcu list' : partialFlashAdvice(half) };
  },
  'update-impossible': () => doctor,
  'config-unusable': () => ({ act: 'agent config check' }),
  'journal-lost': ({ phase }) =>
    phase === 'lost' ? doctor : { act: 'compare the assigned version with agent history', ...reinstall },
  'trust-list-damaged': () => ({ act: 'release a trust list with a higher number' }),
  'no-trusted-key': ({ warnings }) => {
    const fix = warnings.map((text) => /fix it with: (.*)$/.exec(text)?.[1]).find((command) => command !== undefined);
    return { act: fix ?? 'add the public key of your releases to [trust] keys' };
  },
  'no-daemon': ({ phase }) => ({ act: 'systemctl start thing-agent', ...(phase === 'trial' && decide) }),
  'daemon-starting': () => ({ or: 'see its log: journalctl -u thing-agent' }),
  'daemon-unresponsive': () => ({ act: 'systemctl restart thing-agent' }),
  'release-revoked': () => ({ act: 'install another release' }),
  'not-activated': ({ service }) => (service.lastError === undefined ? { act: 'agent activate' } : doctor),
  'last-attempt-failed': afterFailure,
  'last-attempt-refused': afterFailure,
  'last-attempt-rolled-back': afterFailure,
  'service-failing': () => doctor,
  'sensor-failing': () => ({ act: 'agent sensors' }),
};

/** The gateway works, and a blocked version waits for another release. */
function afterFailure({ quarantine, lastOutcome: last, idleCode }: StatusReport): Step {
  if (last?.by === 'rollback') return { act: 'see its steps: agent log', or: 'try again: agent rollback' };
  // the service may have renamed the release since it was blocked for the first time
  const blocked =
    quarantine.find(({ at }) => at === last?.at) ?? quarantine.find(({ version }) => version === last?.version);
  if (blocked !== undefined) {
    const step = unblock(blocked, quarantine);
    return { ...step, act: 'correct the release', or: `try it again: agent unblock ${step.version}` };
  }
  const retry = deferralSteps[idleCode ?? ''] ?? { or: 'try again: agent --update-now', operation: 'update' };
  return { act: 'see its steps: agent log', ...retry };
}
