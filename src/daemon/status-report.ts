import type { OperationOutcome } from '../control/events.ts';
import { stateOf, troublesOf } from '../control/gateway-state.ts';
import type { DaemonStatus, TrustProblem, IdleCode } from '../control/gateway-state.ts';
import type { HistoryAttempt } from '../control/history.ts';
import { listOf } from '../control/presentation/outcome.ts';
import type { Activity, StatusReport } from '../control/reports.ts';
import type { BrokerReport } from '../service/messaging/transport.ts';
import type { CurrentRate } from '../service/throttle.ts';
import { describeError } from '../system/errors.ts';
import { isPlausible } from '../system/time/wall-clock.ts';
import type { HookPause } from '../update/hooks/hooks.ts';
import { countDropped } from '../update/journal/endings.ts';
import { activeHold, hasSlotPayload } from '../update/journal/state.ts';
import type { Phase, PhaseOf, UpdateState } from '../update/journal/state.ts';
import { type Blocked } from '../update/journal/versions.ts';
import { activeEntries } from '../update/policy/backoff.ts';
import type { CheckResult } from '../update/policy/update-checker.ts';
import type { BootState, SlotName } from '../update/ports.ts';
import type { RebootWait } from '../update/trial/reboot-wait.ts';
import { describeCheck, installedReport } from './check-report.ts';
import type { CheckStats } from './cycles/scheduler.ts';

/** The part of the status that is not in the journal: known only to a running process. */
interface RuntimeState {
  readonly daemon: DaemonStatus;
  /** Undefined if the gateway has no slots, or if the bootloader fails, which is then the obstacle. */
  readonly booted: SlotName | undefined;
  readonly boot: BootState | undefined;
  readonly activity: Activity | undefined;
  readonly throttle: CurrentRate | undefined;
  /** The attempts of the history. */
  readonly attempts: readonly HistoryAttempt[];
  readonly rebootDeferral: RebootWait | undefined;
  readonly hookPause: HookPause | undefined;
  readonly lastLook: CheckResult | undefined;
  /** The number of the trust list in effect. */
  readonly listNumber: number | undefined;
  /** The wall clock, which may be wrong. */
  readonly nowMs: number;
  /** The time after which a failed version may be tried again. */
  readonly quarantineMs?: number | undefined;
  /** The reason why the update engine cannot work, if any. */
  readonly obstacle: string | undefined;
  /** False: the bootloader or the state directory fails. */
  readonly canUpdate: boolean;
  readonly distrust: readonly TrustProblem[];
  /** The next start of the agent refuses its configuration. */
  readonly isConfigUnusable: boolean;
  readonly checks: CheckStats | undefined;
  readonly service: StatusReport['service'];
}

export interface StatusInput extends RuntimeState {
  /** Values that are reported unchanged. */
  readonly asItIs: Omit<StatusReport, keyof ReturnType<typeof derivedFields> | 'state' | 'problems'>;
}

export function statusReport(state: UpdateState, around: StatusInput): StatusReport {
  const report = { ...around.asItIs, ...derivedFields(state, around) };
  const { daemon, canUpdate, distrust, isConfigUnusable } = around;
  const troubles = troublesOf({ ...report, daemon, canUpdate, distrust, isConfigUnusable });
  return { state: stateOf({ ...report, problems: troubles }), problems: [...troubles], ...report };
}

/** The members of a status in which the journal, or several things together, have a say. */
function derivedFields(state: UpdateState, around: RuntimeState) {
  const awaitsReboot = waitsForReboot(state.phase, around.booted);
  return {
    daemon: around.daemon === true,
    installed: installedReport(state.installed, state),
    previous: installedReport(state.beforeBoards ?? state.previous, state),
    trustList: listReport(state, around),
    phase: awaitsReboot ? 'staged' : state.phase.kind,
    activity: around.activity,
    throttle: isFetching(around) ? describeRate(around.throttle) : undefined,
    downloaded: downloaded(state.phase),
    ...describeSlots(around.boot, awaitsReboot ? slotOf(state.phase) : undefined),
    booted: around.booted,
    lastOutcome: describeLast(state.lastOutcome, around),
    quarantine: activeEntries(state, around.nowMs, around.quarantineMs).map((entry) => describeHeld(entry, around)),
    ...idleness(state.phase, awaitsReboot, around),
    rebootDeferral: isAlreadyArmed(state.phase, around) ? undefined : describeWait(around.rebootDeferral),
    hookDeferral: describePause(around.hookPause, around.nowMs),
    hold: activeHold(state.standstill, around.nowMs),
    ...describeLookTimes(around.checks),
    pendingSwitch: state.pendingSwitch,
    pendingReports: state.reports.length,
    droppedReports: countDropped(state.reports),
    service: around.service,
  };
}

/** The last outcome, with the bytes that were fetched for it if the history knows them. */
function describeLast(last: UpdateState['lastOutcome'], { attempts }: RuntimeState): StatusReport['lastOutcome'] {
  if (last === undefined) return undefined;
  const fetchedBytes = attempts.findLast(({ attempt }) => attempt === last.attempt)?.fetchedBytes;
  return fetchedBytes === undefined ? last : { ...last, fetchedBytes };
}

function listReport({ listVersion: versionId }: UpdateState, { listNumber }: RuntimeState): StatusReport['trustList'] {
  return listNumber === undefined ? undefined : { number: listNumber, versionId };
}

/** True if firmware may be arriving. Another process reports no phase, so it may be fetching. */
function isFetching({ activity }: RuntimeState): boolean {
  const phase = activity?.phase ?? 'staging';
  return activity !== undefined && (phase === 'checking' || phase === 'staging');
}

function describeRate(rate: CurrentRate | undefined): StatusReport['throttle'] {
  if (rate === undefined) return undefined;
  const { bytesPerSecond, untilMs } = rate;
  return { bytesPerSecond, ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }) };
}

function slotOf(phase: Phase): SlotName | undefined {
  return 'slot' in phase ? phase.slot : undefined;
}

/**
 * True if the slot runs or boots next after any reboot: it then waits for no window, since an operator may have armed
 * it.
 */
function isAlreadyArmed(phase: Phase, { booted, boot }: RuntimeState): boolean {
  const slot = slotOf(phase);
  return slot === booted || (boot !== undefined && boot.primary === slot);
}

function describeWait(wait: RebootWait | undefined): StatusReport['rebootDeferral'] {
  if (wait === undefined) return undefined;
  const { reason, untilMs } = wait;
  return { reason, ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }) };
}

function describeLookTimes(looks: CheckStats | undefined): Pick<StatusReport, 'nextCheckAt' | 'checks'> {
  if (looks === undefined) return { nextCheckAt: undefined };
  const { nextAtMs, lastSuccessAtMs, consecutiveFailures } = looks;
  const lastAt = lastSuccessAtMs === undefined ? undefined : new Date(lastSuccessAtMs).toISOString();
  return { nextCheckAt: new Date(nextAtMs).toISOString(), checks: { lastSuccessAt: lastAt, consecutiveFailures } };
}

function describePause(pause: HookPause | undefined, nowMs: number): StatusReport['hookDeferral'] {
  return pause && { reason: pause.reason, until: new Date(nowMs + pause.leftMs).toISOString() };
}

/** Returns why nothing is being installed: a text for users and a code for programs. */
function idleness(
  phase: Phase,
  awaitsReboot: boolean,
  around: RuntimeState,
): Required<Pick<StatusReport, 'idleReason' | 'idleCode'>> {
  if (around.obstacle !== undefined) return { idleReason: around.obstacle, idleCode: 'update-impossible' };
  const ofPhase = describePhase(phase, awaitsReboot, around);
  if (ofPhase === undefined || phase.kind === 'idle')
    return { idleReason: describeLooks(around), idleCode: codeOfLooks(around) };
  if (awaitsReboot) return { idleReason: ofPhase, idleCode: 'staged' };
  const isCut = phase.kind === 'staging' && around.activity === undefined;
  const ofKind = phase.kind === 'lost' ? 'journal-lost' : phase.kind;
  return { idleReason: ofPhase, idleCode: isCut ? 'interrupted' : ofKind };
}

function codeOfLooks({ lastLook, daemon, service }: RuntimeState): IdleCode {
  if (lastLook === undefined) {
    if (daemon === false) return 'no-daemon';
    if (daemon === 'silent') return 'daemon-unresponsive';
    return service.lastError === undefined ? 'not-asked' : 'service-failing';
  }
  const { plan } = lastLook;
  if (plan.kind === 'deferred') return plan.code;
  if (plan.kind === 'install') return 'update-available';
  return plan.kind === 'reconcile' ? 'up-to-date' : plan.kind;
}

/** A version in quarantine. Its end is known only if the setting has one, and if it began while the clock was set. */
function describeHeld(
  { version, digest, bad: { code, reason, at } }: Blocked,
  { quarantineMs }: RuntimeState,
): StatusReport['quarantine'][number] {
  const sinceMs = Date.parse(at);
  const ends = quarantineMs !== undefined && isPlausible(sinceMs);
  const until = ends ? new Date(sinceMs + quarantineMs).toISOString() : undefined;
  return { version: version.name, versionId: version.id, digest: digest ?? 'unknown', code, reason, at, until };
}

/** The state of the broker; empty if there is none. */
export function brokerStatus(report: BrokerReport | undefined): Pick<StatusReport['service'], 'broker'> {
  if (report === undefined) return {};
  const { url, state, problem, ignored } = report;
  const named = problem === undefined ? undefined : { code: problem.code, message: describeError(problem) };
  return { broker: { url, state, problem: named, ignored } };
}

/** `armed`: a slot that is to be booted once, which some bootloaders do not call bootable until it is committed. */
function describeSlots(
  boot: BootState | undefined,
  armed: SlotName | undefined,
): Pick<StatusReport, 'slots' | 'slotStates'> {
  if (boot === undefined) return { slots: undefined };
  const { primary, slots } = boot;
  const stateOfSlot = (slot: SlotName): { bootable: boolean; bootsNext: boolean } => {
    const { bootable } = slots[slot];
    return { bootable, bootsNext: slot === primary && (bootable || slot === armed) };
  };
  const describe = (slot: SlotName): string => {
    const { bootable, bootsNext: next } = stateOfSlot(slot);
    const once = slot === armed ? ', once, on trial' : '';
    return `${next ? `next to boot${once}` : bootable ? 'bootable' : 'not bootable'} (${slots[slot].detail})`;
  };
  return {
    slots: { A: describe('A'), B: describe('B') },
    slotStates: { A: stateOfSlot('A'), B: stateOfSlot('B') },
  };
}

/** True if the slot is armed while the old one still runs: its trial begins with the boot. */
function waitsForReboot(phase: Phase, booted: SlotName | undefined): boolean {
  return phase.kind === 'trial' && hasSlotPayload(phase.firmware) && booted !== undefined && booted !== phase.slot;
}

/** Returns why the phase prevents a check, if it does. */
function describePhase(phase: Phase, awaitsReboot: boolean, around: RuntimeState): string | undefined {
  switch (phase.kind) {
    case 'idle':
      return undefined;
    case 'lost':
      return `what the journal says cannot be understood; ${around.booted === undefined ? 'what is installed stays' : 'a committed slot stays, and a trial is judged'}`;
    case 'staging':
      return describeStaging(phase, around);
    case 'staged':
      return hasSlotPayload(phase.firmware)
        ? `slot ${phase.slot} holds version ${phase.attempt.version.name} and waits for its trial`
        : `version ${phase.attempt.version.name} is staged, and waits for its trial`;
    case 'trial':
      return awaitsReboot
        ? `slot ${phase.slot} waits for a reboot into version ${phase.attempt.version.name}`
        : `version ${phase.attempt.version.name} is on trial${hasSlotPayload(phase.firmware) ? ` in slot ${phase.slot}` : ''}`;
    case 'rolling-back':
      return `version ${phase.attempt.version.name} is being rolled back: ${phase.reason}`;
  }
}

/** An interrupted staging. It resumes with the next check, unless it was from a file, which cannot be read again. */
function describeStaging(phase: PhaseOf<'staging'>, { activity, daemon, booted }: RuntimeState): string {
  const { version, by } = phase.attempt;
  const place = booted === undefined ? '' : ` into slot ${phase.slot}`;
  if (activity !== undefined) return `version ${version.name} is being staged${place}`;
  if (by === 'file') return `the installation of ${version.name} from a file was interrupted`;
  const goesOn = daemon !== false ? 'the next look goes on with it' : 'agent --update-now goes on with it';
  return `the staging of version ${version.name}${place} was interrupted; ${goesOn}`;
}

function downloaded(phase: Phase): StatusReport['downloaded'] {
  const checkpoint = phase.kind === 'staging' ? phase.checkpoint : undefined;
  if (checkpoint === undefined) return undefined;
  const { offset, totalBytes } = checkpoint.wire;
  return { bytes: offset, totalBytes };
}

function describeLooks({ lastLook, daemon, service }: RuntimeState): string {
  if (lastLook !== undefined) return describeCheck(lastLook);
  if (daemon === false) return 'nobody asks the service: no daemon runs';
  if (daemon === 'silent') return 'nobody asks the service: the daemon does not answer';
  return service.lastError === undefined ? describeCheck(undefined) : 'the service could not be asked yet';
}

/** The outcome for the log. */
export function describeOutcome(outcome: OperationOutcome): string {
  switch (outcome.kind) {
    case 'up-to-date':
      return `${outcome.version} is up to date`;
    case 'deferred':
      return `${outcome.version} is deferred: ${outcome.reason}`;
    case 'installed':
      return describeInstalled(outcome);
    case 'reboot-required':
      return `${outcome.version} waits in slot ${outcome.slot} for a reboot`;
    case 'rebooting':
      return outcome.goesBack === true
        ? `leaving ${outcome.version} (${outcome.reason ?? 'unknown reason'}): rebooting into slot ${outcome.slot}`
        : `rebooting into slot ${outcome.slot} with ${outcome.version}`;
    case 'rolled-back':
      return `${outcome.version} was rolled back: ${outcome.reason}`;
    case 'cancelled':
      return `${outcome.version} was cancelled`;
    case 'nothing-to-cancel':
      return 'nothing was to be cancelled';
    case 'flashed':
      return `${outcome.board} runs ${outcome.version}`;
  }
}

function describeInstalled({ version, trustList }: Extract<OperationOutcome, { kind: 'installed' }>): string {
  return trustList === undefined ? `${version} is installed` : `${listOf(trustList.number)} is in effect`;
}
