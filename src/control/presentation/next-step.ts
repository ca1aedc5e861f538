import { stateOf, troublesOf } from '../gateway-state.ts';
import type { DeferralCode, GatewayState, Problem } from '../gateway-state.ts';
import { partialFlashAdvice } from '../partial-flash.ts';
import type { NextStep, StatusReport } from '../reports.ts';

/** Returns what you need to do, or can do, about the state of a gateway. Pure. */
export function nextStepOf(report: StatusReport): NextStep {
  const found = report.problems ?? troublesOf(report);
  const [worst] = found;
  const state = report.state ?? stateOf({ ...report, problems: found });
  if (report.activity !== undefined && state !== 'on-trial') return nothing('to follow it: agent status --watch');
  if (worst !== undefined && (state === 'broken' || state === 'needs-attention')) return problemSteps[worst](report);
  return stateSteps[state](report);
}

type StepOf = (report: StatusReport) => NextStep;

const stateSteps: Readonly<Record<GatewayState, StepOf>> = {
  ok: ofIdle,
  busy: ofIdle,
  'on-trial': ofTrial,
  staged: ofStaged,
  interrupted: ofInterrupted,
  'rolling-back': ({ daemon }) => (daemon ? nothing() : act('agent --update-now', 'update')),
  'on-hold': () => nothing('to resume updates: agent resume', 'resume'),
  'needs-attention': ofIdle,
  broken: () => act('agent doctor'),
};

function ofTrial({ daemon, activity }: StatusReport): NextStep {
  if (daemon || activity !== undefined) return nothing('to decide now: agent commit, or agent rollback', 'commit');
  return act('systemctl start thing-agent, or decide yourself: agent commit, or agent rollback', 'commit');
}

/** A gateway that needs nothing; `choice` is what you can do. */
function nothing(choice?: string, operation?: NextStep['operation']): NextStep {
  const text = choice === undefined ? 'nothing' : `nothing; ${choice}`;
  return { isNeeded: false, text, ...(operation !== undefined && { operation }) };
}

function act(text: string, operation?: NextStep['operation']): NextStep {
  return { isNeeded: true, text, ...(operation !== undefined && { operation }) };
}

function ofStaged({ rebootDeferral, hookDeferral, booted, daemon }: StatusReport): NextStep {
  if (daemon && rebootDeferral !== undefined) return nothing('to reboot into it now: agent reboot', 'reboot');
  if (daemon && hookDeferral !== undefined)
    return nothing('to call the hook now: agent --update-now; to skip it, add --force', 'update');
  if (booted !== undefined) return act('agent reboot', 'reboot');
  return daemon ? nothing() : act('agent --update-now', 'update');
}

function ofInterrupted(report: StatusReport): NextStep {
  const { daemon, idleCode, lastOutcome } = report;
  if (idleCode !== 'interrupted') return ofIdle(report);
  if (daemon) return nothing('it resumes at the next check; to resume it now: agent --update-now', 'update');
  return act(lastOutcome?.by === 'file' ? 'agent install FILE' : 'agent --update-now', 'update');
}

function ofIdle({ idleCode, idleReason, quarantine }: StatusReport): NextStep {
  if (idleCode === 'update-available' || idleCode === 'not-asked')
    return nothing('to check and install now: agent --update-now', 'update');
  const choice = deferralSteps.get(idleCode ?? '');
  // the deferred version, not another blocked one
  if (idleCode === 'quarantined')
    return unblock(quarantine.find(({ version }) => idleReason.startsWith(`${version} `))?.version);
  return choice ?? nothing();
}

function unblock(version: string | undefined): NextStep {
  if (version === undefined) return nothing();
  return { ...nothing(`to try ${version} again: agent unblock ${version}`, 'unblock'), version };
}

const force = nothing('to install it anyway: agent --update-now --force');
const deferralSteps: ReadonlyMap<string, NextStep> = new Map<DeferralCode, NextStep>([
  ['attempts-exhausted', act('correct the release, or try again: agent --update-now --force')],
  ['retry-backoff', nothing('to try again now: agent --update-now', 'update')],
  ['outside-window', force],
  ['outside-reboot-window', nothing('to reboot into it now: agent reboot', 'reboot')],
  ['metered-connection', force],
  ['config-unusable', act('agent config check')],
  ['clock-unsynchronized', act('agent doctor')],
  ['hook-deferred', force],
  ['manual-override', nothing('to install the assigned version: agent --update-now --force')],
  ['flapping', act('correct the assignment; to install it now: agent --update-now', 'update')],
  ['on-hold', nothing('to resume updates: agent resume', 'resume')],
  ['cancelled', nothing('to install it: agent --update-now', 'update')],
]);

const toLog = 'to see its steps: agent log';

const problemSteps: Readonly<Record<Problem, StepOf>> = {
  'board-half-written': ({ boards }) => {
    const half = boards.find(({ writing }) => writing !== undefined);
    return act(half === undefined ? 'agent mcu list' : partialFlashAdvice(half));
  },
  'update-impossible': () => act('agent doctor'),
  'config-unusable': () => act('agent config check'),
  'journal-lost': () => act('agent doctor'),
  'trust-list-damaged': () => act('release a trust list with a higher number'),
  'no-trusted-key': () => act('add the public key of your releases to [trust] keys'),
  'no-daemon': () => act('systemctl start thing-agent'),
  'daemon-starting': () => nothing('if it takes minutes: journalctl -u thing-agent'),
  'daemon-unresponsive': () => act('systemctl restart thing-agent'),
  'release-revoked': () => act('install another release'),
  'not-activated': ({ service }) => act(service.lastError === undefined ? 'agent activate' : 'agent doctor'),
  'last-attempt-failed': ({ quarantine, lastOutcome }) => afterFailure(quarantine, lastOutcome),
  'last-attempt-refused': ({ quarantine, lastOutcome }) => afterFailure(quarantine, lastOutcome),
  'last-attempt-rolled-back': ({ quarantine, lastOutcome }) => afterFailure(quarantine, lastOutcome),
  'service-failing': () => act('agent doctor'),
  'sensor-failing': () => act('agent sensors'),
};

/** A blocked version needs no action: the gateway works, and waits for another release. */
function afterFailure(quarantine: StatusReport['quarantine'], last: StatusReport['lastOutcome']): NextStep {
  const blocked = quarantine.find(({ version }) => version === last?.version);
  if (blocked !== undefined) return unblock(blocked.version);
  return { ...nothing(`${toLog}; to try again: agent --update-now`), operation: 'update' };
}
