import type { OnEvent, OperationOutcome } from '../control/events.ts';
import type { InputOf, InstallFlags } from '../control/operations.ts';
import { AgentError } from '../system/errors.ts';
import type { Clock } from '../system/time/clock.ts';
import { isPlausible } from '../system/time/wall-clock.ts';
import { UpdateError } from './errors.ts';
import { standingPause } from './hooks/hooks.ts';
import type { HookPause, HookPort } from './hooks/hooks.ts';
import type { Journal } from './journal/journal.ts';
import { activeHold } from './journal/state.ts';
import type { ManualHold, UpdateState } from './journal/state.ts';
import { cancelManually, commitManually, rollBackManually, rebootManually } from './manual.ts';
import type { ManualActionDeps } from './manual.ts';
import { deliverOutbox } from './outbox.ts';
import type { InstallOutcome, Outcome } from './outcome.ts';
import { findBlocked, pauseLeft } from './policy/backoff.ts';
import { listPauseLeft } from './policy/choose.ts';
import { isoTime } from './policy/install-request.ts';
import type { InstallRequest, UpdatePorts } from './policy/install-request.ts';
import { AttemptDeferred, consequenceOf, deferredOutcome, mayTry } from './policy/may-try.ts';
import type { Facts } from './policy/may-try.ts';
import type { Plan } from './policy/plan.ts';
import { findWaitingBeside, isListInFile } from './policy/trust-lists.ts';
import { recordDiffers, UpdateChecker } from './policy/update-checker.ts';
import type { CheckResult, LookoutDeps, CheckOptions } from './policy/update-checker.ts';
import { endObsoleteStaging } from './policy/withdraw.ts';
import type { FirmwareSource, Version } from './ports.ts';
import { recoverUpdate } from './trial/recovery.ts';
import { findRebootDeferral, findUnarmed } from './trial/staged.ts';
import type { RebootWait, StagedUnarmed } from './trial/staged.ts';
import { rebootToTrial } from './trial/trial.ts';
import { update } from './update.ts';

export interface UpdaterDeps extends LookoutDeps {
  /** Absent without hooks. */
  readonly hooks?: HookPort | undefined;
}

interface Settling {
  /** It waits for no window and no `agent hold`, and no hook is called. */
  readonly force?: boolean;
  /** false: an operator makes the reboot. */
  readonly reboot?: boolean;
  /** An operator waits, so the reboot window does not count. */
  readonly manual?: boolean;
}

type Nothing = Exclude<Plan, { kind: 'install' | 'deferred' }>;

/** True if a check counts for a deferral that ends after a number of checks, also for a version that was skipped. */
function isCounted(plan: Plan, { versions }: UpdateState, clock: Clock): boolean {
  if (plan.kind === 'install') return false;
  const nowMs = clock.nowMs();
  const isPaused = versions.some((entry) => pauseLeft(entry, nowMs) > 0) || listPauseLeft(versions, nowMs) > 0;
  return isPaused || (plan.kind === 'deferred' && consequenceOf(plan.code) === 'resumes after checks');
}

/** The update room as the daemon and a technician drive it, one call at a time. */
export class Updater {
  readonly #deps: UpdaterDeps;
  readonly #lookout: UpdateChecker;

  constructor(deps: UpdaterDeps) {
    this.#deps = deps;
    this.#lookout = new UpdateChecker(deps);
  }

  get journal(): Journal {
    return this.#deps.ports.journal;
  }

  /** The last check, for `status`. */
  get lastLook(): CheckResult | undefined {
    return this.#lookout.lastLook;
  }

  /** Completes or undoes an interrupted update, and reports its end to the service. */
  async settle(onEvent: OnEvent, signal: AbortSignal, flags: Settling = {}): Promise<Outcome> {
    const { force = false, reboot = true, manual = false } = flags;
    const ports = { ...this.#ports(onEvent, signal, manual), rebootByHand: !reboot };
    await this.#lookout.lookBeforeSettling(ports);
    const settled = await recoverUpdate(
      force ? { ...ports, deferResume: undefined, deferReboot: undefined, askHook: undefined } : ports,
    );
    if (settled.kind === 'installed' || settled.kind === 'rolled-back') await this.deliver(onEvent, signal);
    return settled;
  }

  /** Tells the service what it does not know yet. Returns a failure: the messages are kept for later. */
  async deliver(onEvent: OnEvent, signal: AbortSignal): Promise<AgentError | undefined> {
    const { service, settings, ports, hooks } = this.#deps;
    return deliverOutbox({ ...ports, ...settings, service, tellHook: hooks?.tell, onProgress: onEvent }, signal);
  }

  /** Asks the service and plans; changes nothing. */
  async look(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    return this.#lookout.check(flags, signal);
  }

  /** Ends the quarantine, so that the service can offer the version again. Returns its name. */
  async unblock(word: string): Promise<string> {
    const { journal, clock } = this.#deps.ports;
    const release = findBlocked(journal.state, word, clock.nowMs());
    await journal.append({ type: 'unblocked', release });
    return release.version.name;
  }

  /** Starts a hold. Until it ends, only a forced update is installed; a rollback is always possible. */
  async hold({ durationMs, reason }: InputOf<'hold'>): Promise<ManualHold> {
    const { journal, clock } = this.#deps.ports;
    const nowMs = clock.nowMs();
    if (durationMs !== undefined && !isPlausible(nowMs))
      throw new UpdateError('hold-needs-clock', 'the clock is not synchronized, so the end of the hold is unknown');
    const until = durationMs === undefined ? undefined : new Date(nowMs + durationMs).toISOString();
    const standstill = { since: isoTime(clock), until, reason };
    await journal.append({ type: 'hold-started', standstill });
    return standstill;
  }

  /** Ends a hold. Returns false if there was none. */
  async resume(): Promise<boolean> {
    const { journal, clock } = this.#deps.ports;
    const { standstill } = journal.state;
    if (standstill === undefined) return false;
    await journal.append({ type: 'hold-released' });
    return activeHold(standstill, clock.nowMs()) !== undefined;
  }

  /** One whole round: settle, tell, look, install. */
  async updateNow(
    flags: InstallFlags & { readonly manual: boolean },
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const settled = await this.#settleFor(flags, onEvent, signal);
    if (settled !== undefined && settled.kind !== 'installed') return settled;
    await this.deliver(onEvent, signal);
    onEvent({ kind: 'phase', phase: 'checking' });
    const result = await this.#lookout.checkAndRecord(flags, signal);
    const { plan } = result;
    if (await recordDiffers(result, this.#deps, signal)) await this.deliver(onEvent, signal);
    await endObsoleteStaging(plan, this.#deps.ports);
    if (isCounted(plan, this.journal.state, this.#deps.ports.clock))
      await this.journal.append({ type: 'check-deferred' });
    if (plan.kind === 'install') {
      const { version, trustList: isList } = plan;
      const source = this.#deps.service.firmware(version.id);
      const reboot = flags.reboot && (flags.manual || !this.#isRebootedByHand(version));
      const { force, manual } = flags;
      const order = { version, by: 'service', source, force, reboot, manual, isList } as const;
      return this.#install(order, onEvent, signal);
    }
    if (plan.kind === 'deferred') return plan;
    const nothing = await this.#nothingToInstall(plan, onEvent, signal);
    return settled?.version === nothing.version ? settled : nothing;
  }

  /** Installs a release from a local file. The next check finds the service's name for it. */
  async installFile(
    source: FirmwareSource,
    name: string,
    flags: InstallFlags,
    { onEvent, signal }: { readonly onEvent: OnEvent; readonly signal: AbortSignal },
  ): Promise<OperationOutcome> {
    const { configProblem } = this.#deps.ports;
    const deferral = flags.force ? undefined : mayTry({ ...this.#hold(), configProblem: await configProblem() });
    const isList = await isListInFile(source, deferral, this.#ports(onEvent, signal), this.#deps.hooks);
    if (deferral !== undefined && !isList) return { kind: 'deferred', version: name, ...deferral };
    const order = { version: { name }, by: 'file', source, ...flags, isList } as const;
    const waiting = await findWaitingBeside(order, this.#ports(onEvent, signal));
    const reboot = flags.reboot && waiting === undefined;
    const settled = await this.#settleFor({ ...flags, reboot, manual: true }, onEvent, signal);
    if (settled === undefined || settled.kind === 'installed') return this.#install(order, onEvent, signal);
    if (waiting === undefined || settled.kind === 'rolled-back') return settled;
    throw new UpdateError('update-pending', `${name} was not installed: version ${waiting.name} waits for its boot`);
  }

  async commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return commitManually(this.#intervention(onEvent, signal));
  }

  async rollback(flags: InstallFlags, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return rollBackManually(flags, this.#intervention(onEvent, signal, flags));
  }

  async cancel(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return cancelManually(this.#intervention(onEvent, signal));
  }

  #intervention(onEvent: OnEvent, signal: AbortSignal, { reboot = true }: Settling = {}): ManualActionDeps {
    return {
      ports: { ...this.#ports(onEvent, signal), rebootByHand: !reboot },
      settle: async () => this.settle(onEvent, signal, { reboot }),
      deliver: async () => this.deliver(onEvent, signal),
    };
  }

  /** Reboots for an operator: staged firmware is booted as a trial, in any window. */
  async reboot(argument: string | undefined, signal: AbortSignal): Promise<void> {
    const onProgress = (): void => {};
    try {
      await rebootManually(argument, this.#ports(onProgress, signal, true));
    } catch (error) {
      if (error instanceof UpdateError && error.code === 'hook-rejected') await this.deliver(onProgress, signal);
      throw error;
    }
  }

  /** Returns the staged firmware that a reboot would not boot, since it is not armed. */
  async findUnarmed(signal: AbortSignal): Promise<StagedUnarmed | undefined> {
    return findUnarmed({ ...this.#deps.ports, signal });
  }

  /** Returns the reason for not rebooting into staged firmware automatically. */
  get rebootWait(): RebootWait | undefined {
    const { ports, settings, minuteOfDay } = this.#deps;
    const nowMs = ports.clock.nowMs();
    return findRebootDeferral(ports.journal.state, settings.policy.rebootWindow, { nowMs, minuteOfDay: minuteOfDay() });
  }

  /** Returns the pause of a consent hook that deferred. */
  get hookPause(): HookPause | undefined {
    return standingPause(this.#deps.hooks?.pause, this.journal.state);
  }

  /** Returns the failure of the last notification hook. */
  get hookTroubles(): readonly string[] {
    const trouble = this.#deps.hooks?.trouble;
    return trouble === undefined ? [] : [trouble];
  }

  /** Returns the ports with the deferrals that apply. The reboot window does not apply to an operator's request. */
  #ports(onEvent: OnEvent, signal: AbortSignal, manual = false): UpdatePorts {
    const { ports, settings, minuteOfDay, hooks } = this.#deps;
    const { window, rebootWindow } = settings.policy;
    const ofReboot = manual ? {} : { rebootWindow };
    const ofResume = rebootWindow === undefined ? { window } : ofReboot;
    const deferReboot: UpdatePorts['deferReboot'] = (isOrdered) =>
      isOrdered ? undefined : mayTry({ ...this.#hold(), ...ofReboot, minuteOfDay: minuteOfDay() });
    const deferResume: UpdatePorts['deferResume'] = (isOrdered) =>
      mayTry(isOrdered ? this.#hold() : { ...this.#hold(), ...ofResume, minuteOfDay: minuteOfDay() });
    const askHook = manual ? hooks?.ask : hooks?.askInTurn;
    return { ...ports, signal, onProgress: onEvent, deferResume, deferReboot, askHook, wantsHook: hooks?.wants };
  }

  #hold(): Pick<Facts, 'standstill' | 'nowMs'> {
    const { journal, clock } = this.#deps.ports;
    return { standstill: journal.state.standstill, nowMs: clock.nowMs() };
  }

  /** True if an operator wants to reboot manually after this interrupted version, which the daemon resumes. */
  #isRebootedByHand({ id }: Version): boolean {
    const { phase } = this.journal.state;
    return phase.kind === 'staging' && phase.attempt.version.id === id && phase.attempt.rebootByHand === true;
  }

  /** Recovers before an operation. Returns an outcome that prevents it. A manual reboot is left to the operator. */
  async #settleFor(
    flags: InstallFlags & { readonly manual: boolean },
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome | undefined> {
    const settled = await this.settle(onEvent, signal, flags);
    const { phase } = this.journal.state;
    const hasEnded = settled.kind === 'rolled-back' && phase.kind !== 'rolling-back';
    if (settled.kind === 'settled' || hasEnded) return undefined;
    const mayReboot = flags.reboot && flags.manual;
    if (settled.kind !== 'reboot-required' || !mayReboot || phase.kind !== 'trial') return settled;
    const deferral = flags.force ? undefined : deferredOutcome(phase.attempt, () => mayTry(this.#hold()));
    if (deferral !== undefined) return deferral;
    await rebootToTrial(phase, this.#ports(onEvent, signal));
    return { ...settled, kind: 'rebooting' };
  }

  async #install(order: InstallRequest, onEvent: OnEvent, signal: AbortSignal): Promise<InstallOutcome> {
    try {
      const isManual = order.by === 'file' || order.manual;
      const outcome = await update(order, this.#ports(onEvent, signal, isManual));
      if (outcome.kind === 'installed' || outcome.kind === 'rolled-back') await this.deliver(onEvent, signal);
      return outcome;
    } catch (error) {
      if (error instanceof AttemptDeferred) return { kind: 'deferred', version: order.version.name, ...error.hold };
      if (error instanceof AgentError) await this.deliver(onEvent, signal);
      throw error;
    }
  }

  async #nothingToInstall(plan: Nothing, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    if (plan.kind === 'nothing-offered') {
      const version = this.journal.state.installed?.version.name ?? 'nothing';
      const isOff = this.#deps.settings.follow.kind === 'none';
      const reason = isOff ? 'updates from the service are off ([update] follow)' : 'the service offers no version';
      return { kind: 'up-to-date', version, reason };
    }
    if (plan.kind === 'up-to-date') return plan;
    await this.journal.append({ type: 'reconciled', versionId: plan.version.id, switchTo: true });
    await this.deliver(onEvent, signal);
    return { kind: 'up-to-date', version: plan.version.name };
  }
}
