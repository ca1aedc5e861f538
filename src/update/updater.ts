import type { InstallOptions, OnEvent, OperationOutcome } from '../control/operations.ts';
import { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import { goBack } from './go-back.ts';
import type { Journal } from './journal.ts';
import { lookForVersion } from './look.ts';
import type { Follow } from './look.ts';
import type { InstallOrder, InstallOutcome, UpdatePorts } from './order.ts';
import { deliverOutbox } from './outbox.ts';
import { planUpdate } from './plan.ts';
import type { Plan, Policy } from './plan.ts';
import type { FirmwareSource, ProvisioningService, Version } from './ports.ts';
import { settle } from './settle.ts';
import type { Settled } from './settled.ts';
import { otherSlot } from './slot.ts';
import type { UpdateState } from './state.ts';
import { keepTrial, leaveTrial } from './trial.ts';
import type { TrialEnd } from './trial.ts';
import { update } from './update.ts';
import { endUnwantedStaging, withdraw } from './withdraw.ts';

export interface UpdaterSettings {
  readonly follow: Follow;
  readonly policy: Policy;
  readonly outcomeProperty: string | undefined;
}

export interface UpdaterParts {
  readonly ports: Omit<UpdatePorts, 'onProgress'>;
  readonly service: ProvisioningService;
  readonly settings: UpdaterSettings;
  /** Minutes since local midnight; undefined: the clock is not set. */
  readonly minuteOfDay: () => number | undefined;
}

/** What was found at the service, and what it means. */
export interface Look {
  readonly offered: Version | undefined;
  readonly plan: Plan;
}

/** The update room as the daemon and the technician drive it: one call at a time. */
export class Updater {
  readonly #parts: UpdaterParts;
  #looksSinceFailure = 0;
  #lastLook: Look | undefined;

  constructor(parts: UpdaterParts) {
    this.#parts = parts;
  }

  get journal(): Journal {
    return this.#parts.ports.journal;
  }

  /** Of the last look; for `status`. */
  get lastLook(): Look | undefined {
    return this.#lastLook;
  }

  /** Finishes or undoes what was left half done, and tells the service how it ended. */
  async settle(onEvent: OnEvent, signal: AbortSignal): Promise<Settled> {
    const settled = await settle(this.#ports(onEvent), signal);
    if (settled.kind === 'committed' || settled.kind === 'rolled-back') await this.deliver(onEvent, signal);
    return settled;
  }

  /** Tells the service what it does not know yet; a failure is returned, not thrown: it is kept for later. */
  async deliver(onEvent: OnEvent, signal: AbortSignal): Promise<AgentError | undefined> {
    const { service, settings, ports } = this.#parts;
    const { journal, log } = ports;
    const outbox = { journal, service, outcomeProperty: settings.outcomeProperty, log, onProgress: onEvent };
    return deliverOutbox(outbox, signal);
  }

  /** Asks the service and plans; changes nothing. */
  async look(options: { readonly manual: boolean; readonly force: boolean }, signal: AbortSignal): Promise<Look> {
    const { service, settings, ports, minuteOfDay } = this.#parts;
    const { state } = ports.journal;
    const offered = await lookForVersion(settings.follow, state, service, signal);
    const circumstances = {
      policy: settings.policy,
      minuteOfDay: minuteOfDay(),
      looksSinceFailure: this.#looksSinceFailure,
      ...options,
    };
    this.#lastLook = { offered, plan: planUpdate(state, offered, circumstances) };
    return this.#lastLook;
  }

  /** One whole round: settle, tell, look, install. */
  async updateNow(
    options: InstallOptions & { readonly manual: boolean },
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const settled = await this.#settleFor(options.reboot && options.manual, onEvent, signal);
    if (settled !== undefined && settled.kind !== 'installed') return settled;
    await this.deliver(onEvent, signal);
    if (options.force) await this.journal.append({ type: 'quarantine-lifted' });
    onEvent({ kind: 'phase', phase: 'checking' });
    const { plan } = await this.look(options, signal);
    await endUnwantedStaging(plan, this.#parts.ports);
    if (plan.kind === 'install') {
      const { version } = plan;
      const source = this.#parts.service.firmware(version.id);
      return this.#install({ version, by: 'service', source, ...options }, onEvent, signal);
    }
    if (plan.kind === 'held-back') {
      this.#looksSinceFailure += 1;
      return plan;
    }
    const nothing = await this.#nothingToInstall(plan, onEvent, signal);
    return settled?.version === nothing.version ? settled : nothing;
  }

  /** A firmware from a local file; what it is called by the service is found out at the next look. */
  async installFile(
    source: FirmwareSource,
    name: string,
    options: InstallOptions,
    { onEvent, signal }: { readonly onEvent: OnEvent; readonly signal: AbortSignal },
  ): Promise<OperationOutcome> {
    const settled = await this.#settleFor(options.reboot, onEvent, signal);
    if (settled !== undefined && settled.kind !== 'installed') return settled;
    if (options.force) await this.journal.append({ type: 'quarantine-lifted' });
    return this.#install({ version: { name }, by: 'file', source, ...options }, onEvent, signal);
  }

  /** A person keeps the trial without waiting for the health gate. */
  async commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const { journal, bootloader } = this.#parts.ports;
    const { phase } = journal.state;
    const onTrial = phase.kind === 'trial' || phase.kind === 'staged';
    if (!onTrial || (await bootloader.bootedSlot(signal)) !== phase.slot) {
      throw new UpdateError('nothing-on-trial', 'there is no trial to commit');
    }
    const end = await keepTrial(this.#ports(onEvent), signal);
    await this.deliver(onEvent, signal);
    return outcomeOf(end);
  }

  /** Ends a trial, gives up one that has not booted yet, or boots what was installed before, on trial like any other. */
  async rollback(options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const { journal, bootloader } = this.#parts.ports;
    const ports = this.#ports(onEvent);
    const { phase } = journal.state;
    const booted = await bootloader.bootedSlot(signal);
    if (phase.kind === 'trial' && phase.slot === booted) {
      return outcomeOf(await leaveTrial(BY_HAND, ports, signal));
    }
    if (phase.kind === 'trial') {
      await journal.append({ type: 'rollback-started', ...BY_HAND });
      await this.settle(onEvent, signal);
      return { kind: 'rolled-back', version: phase.attempt.version.name, reason: BY_HAND.reason };
    }
    const slot = otherSlot(booted);
    if (phase.kind === 'staging') await withdraw('overruled', 'a person went back instead', ports);
    else if (phase.kind !== 'idle') throw new UpdateError('update-under-way', `an update is under way (${phase.kind})`);
    return goBack(slot, options, ports, signal);
  }

  #ports(onEvent: OnEvent): UpdatePorts {
    return { ...this.#parts.ports, onProgress: onEvent };
  }

  /** Undefined, or `installed`: nothing stands in the way. A reboot that a person wanted to make is made only for a person. */
  async #settleFor(mayReboot: boolean, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome | undefined> {
    const settled = await this.settle(onEvent, signal);
    if (settled.kind === 'rebooting') return settled;
    if (settled.kind === 'committed') return { kind: 'installed', version: settled.version };
    if (settled.kind !== 'awaiting-reboot') return undefined;
    const { version, slot } = settled;
    if (!mayReboot) return { kind: 'reboot-required', version, slot };
    const { machine, bootloader } = this.#parts.ports;
    onEvent({ kind: 'phase', phase: 'rebooting', detail: `slot ${slot}` });
    await machine.reboot(bootloader.trialRebootArgument, signal);
    return { kind: 'rebooting', version, slot };
  }

  async #install(order: InstallOrder, onEvent: OnEvent, signal: AbortSignal): Promise<InstallOutcome> {
    try {
      const outcome = await update(order, this.#ports(onEvent), signal);
      if (outcome.kind === 'installed') await this.deliver(onEvent, signal);
      return outcome;
    } catch (error) {
      this.#looksSinceFailure = 0;
      if (error instanceof AgentError) await this.deliver(onEvent, signal);
      throw error;
    }
  }

  async #nothingToInstall(
    plan: Exclude<Plan, { kind: 'install' | 'held-back' }>,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const { installed } = this.journal.state;
    if (plan.kind === 'nothing-offered') return { kind: 'up-to-date', version: installed?.version.name ?? 'nothing' };
    if (plan.kind === 'up-to-date') {
      await this.#agree(installed);
      return plan;
    }
    await this.journal.append({ type: 'reconciled', versionId: plan.version.id, switchTo: true });
    await this.deliver(onEvent, signal);
    return { kind: 'up-to-date', version: plan.version.name };
  }

  /** The service names what a person had installed instead of something else: nothing is overridden any more. */
  async #agree(installed: UpdateState['installed']): Promise<void> {
    const { overrides, version } = installed ?? {};
    if (overrides === undefined || version?.id === undefined) return;
    await this.journal.append({ type: 'reconciled', versionId: version.id, switchTo: false });
  }
}

const BY_HAND = { code: 'by-hand', reason: 'a person rolled it back', quarantine: true };

function outcomeOf(end: TrialEnd): OperationOutcome {
  if (end.kind === 'committed') return { kind: 'installed', version: end.version };
  return { kind: 'rolled-back', version: end.version, reason: end.reason };
}
