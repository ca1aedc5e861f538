import { stateOf, problemsOf } from '../../control/gateway-state.ts';
import { nextStepOf } from '../../control/presentation/next-step.ts';
import type { StatusReport } from '../../control/reports.ts';
import type { BrokerReport } from '../../service/messaging/transport.ts';
import type { CurrentRate } from '../../service/throttle.ts';
import { describeError } from '../../system/errors.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import type { HookPause } from '../../update/hooks/hooks.ts';
import { countDropped } from '../../update/journal/endings.ts';
import { activeHold, isForgotten } from '../../update/journal/state.ts';
import type { Phase, UpdateState } from '../../update/journal/state.ts';
import { type Blocked, entryOf } from '../../update/journal/versions.ts';
import { activeEntries } from '../../update/policy/backoff.ts';
import type { SlotName } from '../../update/ports.ts';
import type { RebootWait } from '../../update/trial/staged.ts';
import type { CheckStats } from '../cycles/scheduler.ts';
import { installedReport, waitsForReboot } from './check-report.ts';
import type { StatusInput } from './gather-status.ts';
import { idleness } from './idle-reason.ts';
import { describeSlots, runningReport } from './slot-report.ts';

export function statusReport(state: UpdateState, around: StatusInput): StatusReport {
  const known = { ...around.asItIs, ...derivedFields(state, around) };
  const { daemon, canUpdate, distrust, isConfigUnusable } = around;
  const hasForgotten = isForgotten(state);
  const problems = problemsOf({ ...known, daemon, canUpdate, distrust, isConfigUnusable, hasForgotten });
  const report = {
    running: runningReport(state, around.booted),
    state: stateOf({ ...known, problems }),
    problems: [...problems],
    ...known,
  };
  return { ...report, toDo: nextStepOf(report) };
}

/** The members that depend on the journal, or on several inputs. */
function derivedFields(state: UpdateState, around: StatusInput) {
  const awaitsReboot = waitsForReboot(state.phase, around.booted);
  const hold = activeHold(state.standstill, around.nowMs);
  const { throttle, rebootDeferral: wait } = around;
  return {
    daemon: around.daemon === true,
    installed: installedReport(state.installed, state, around.keyNames),
    previous: installedReport(state.earlier[0], state),
    trustList: listReport(state, around),
    phase: awaitsReboot ? 'staged' : state.phase.kind,
    activity: around.activity,
    throttle:
      throttle && isFetching(around) ? { bytesPerSecond: throttle.bytesPerSecond, ...endOf(throttle) } : undefined,
    downloaded: downloaded(state.phase),
    ...describeSlots(
      around.boot,
      { armed: awaitsReboot ? slotOf(state.phase) : undefined, booted: around.booted },
      state,
    ),
    booted: around.booted,
    lastOutcome: describeLast(state.lastOutcome, around),
    quarantine: activeEntries(state, around.nowMs, around.quarantineMs).map((entry) =>
      describeHeld(entry, state, around),
    ),
    ...idleness(state.phase, awaitsReboot, { ...around, hold }),
    rebootDeferral: wait && !isAlreadyArmed(state.phase, around) ? { reason: wait.reason, ...endOf(wait) } : undefined,
    hookDeferral: describePause(around.hookPause, around.nowMs),
    hold,
    ...describeLookTimes(around.checks),
    pendingSwitch: state.pendingSwitch,
    pendingReports: state.reports.length,
    droppedReports: countDropped(state.reports),
    service: around.service,
  };
}

/** The last outcome, with the bytes that were fetched for it if the history knows them. */
function describeLast(last: UpdateState['lastOutcome'], { attempts }: StatusInput): StatusReport['lastOutcome'] {
  if (last === undefined) return undefined;
  const fetchedBytes = attempts.findLast(({ attempt }) => attempt === last.attempt)?.fetchedBytes;
  return fetchedBytes === undefined ? last : { ...last, fetchedBytes };
}

function listReport({ listVersion: versionId }: UpdateState, { listNumber }: StatusInput): StatusReport['trustList'] {
  return listNumber === undefined ? undefined : { number: listNumber, versionId };
}

/** True if firmware may be arriving. Another process reports no phase, so it may be fetching. */
function isFetching({ activity }: StatusInput): boolean {
  const phase = activity?.phase ?? 'staging';
  return activity !== undefined && (phase === 'checking' || phase === 'staging');
}

function slotOf(phase: Phase): SlotName | undefined {
  return 'slot' in phase ? phase.slot : undefined;
}

/**
 * True if the slot runs or boots next after any reboot: it then waits for no window, since an operator may have armed
 * it.
 */
function isAlreadyArmed(phase: Phase, { booted, boot }: StatusInput): boolean {
  const slot = slotOf(phase);
  return slot === booted || (boot !== undefined && boot.primary === slot);
}

/** The end of a rate or of a wait as a member of a report, if it is known. */
function endOf({ untilMs }: CurrentRate | RebootWait): { readonly until?: string } {
  return untilMs === undefined ? {} : { until: new Date(untilMs).toISOString() };
}

function describeLookTimes(looks: CheckStats | undefined): Pick<StatusReport, 'nextCheckAt' | 'checks'> {
  if (looks === undefined) return { nextCheckAt: undefined };
  const { nextAtMs, lastSuccessAtMs, consecutiveFailures, retryAtMs } = looks;
  const iso = (atMs: number | undefined): string | undefined =>
    atMs === undefined ? undefined : new Date(atMs).toISOString();
  const checks = { lastSuccessAt: iso(lastSuccessAtMs), consecutiveFailures, retryAt: iso(retryAtMs) };
  return { nextCheckAt: iso(nextAtMs), checks };
}

function describePause(pause: HookPause | undefined, nowMs: number): StatusReport['hookDeferral'] {
  return pause && { reason: pause.reason, until: new Date(nowMs + pause.leftMs).toISOString() };
}

/** A version in quarantine. Its end is known only if the setting has one, and if it began while the clock was set. */
function describeHeld(
  entry: Blocked,
  { versions }: UpdateState,
  { quarantineMs, lastLook }: StatusInput,
): StatusReport['quarantine'][number] {
  const { version, digest, bad } = entry;
  const { code, reason, at } = bad;
  const sinceMs = Date.parse(at);
  const ends = quarantineMs !== undefined && isPlausible(sinceMs);
  const until = ends ? new Date(sinceMs + quarantineMs).toISOString() : undefined;
  const offered = lastLook?.offered;
  const isOffered = offered !== undefined && entryOf(versions, { version: offered }) === entry;
  const told = { version: version.name, versionId: version.id, digest: digest ?? 'unknown', code, reason, at, until };
  return isOffered ? { ...told, isOffered } : told;
}

/** The state of the broker; empty if there is none. */
export function brokerStatus(report: BrokerReport | undefined): Pick<StatusReport['service'], 'broker'> {
  if (report === undefined) return {};
  const { url, state, problem, ignored } = report;
  const named = problem === undefined ? undefined : { code: problem.code, message: describeError(problem) };
  return { broker: { url, state, problem: named, ignored } };
}

function downloaded(phase: Phase): StatusReport['downloaded'] {
  const checkpoint = phase.kind === 'staging' ? phase.checkpoint : undefined;
  if (checkpoint === undefined) return undefined;
  const { offset, totalBytes } = checkpoint.wire;
  return { bytes: offset, totalBytes };
}
