import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { advance } from '../journal/reducer.ts';
import type { UpdateEvent, UpdateState } from '../journal/state.ts';
import { hasSlotPayload } from '../journal/state.ts';
import { needsDate } from '../journal/versions.ts';
import type { OutboxPorts } from '../outbox.ts';
import type { FirmwareHeader, ProvisioningService, Version } from '../ports.ts';
import type { FullImage, Follow } from './choose.ts';
import { MAX_LIST_PROBES, findCandidate, listNumber } from './choose.ts';
import { isoTime } from './install-request.ts';
import type { EnginePorts, UpdatePorts } from './install-request.ts';
import type { GatewayFacts } from './may-try.ts';
import { planUpdate } from './plan.ts';
import type { Plan, Policy } from './plan.ts';
import { isInstalled } from './presence.ts';
import { applyIfTrustList, headerOf } from './trust-lists.ts';
import { endUnwantedWait } from './withdraw.ts';

export interface UpdaterSettings extends Pick<OutboxPorts, 'outcomeProperty' | 'wholeImageProperty'> {
  readonly follow: Follow;
  readonly policy: Policy;
  /** Default: `same`. */
  readonly wholeImage?: FullImage;
}

export interface LookoutDeps {
  readonly ports: EnginePorts;
  readonly service: ProvisioningService;
  readonly settings: UpdaterSettings;
  /** Minutes since local midnight; undefined if the clock is not synchronized. */
  readonly minuteOfDay: () => number | undefined;
}

/** The deadline for asking about a trust list. Without a reply, the health checks run anyway. */
const LIST_CHECK_MS = 60_000;
/** A version that has the name of a trust list but cannot be read leaves time for the others. */
const LIST_HEADER_MS = LIST_CHECK_MS / MAX_LIST_PROBES;

export interface CheckOptions {
  /** An operator waits for the result. */
  readonly manual: boolean;
  readonly force: boolean;
}

/** The service's offer, and the plan for it. */
export interface CheckResult {
  readonly offered: Version | undefined;
  readonly plan: Plan;
}

/** The result of a check, besides what is in the journal and on the clock. */
interface Found extends Omit<GatewayFacts, 'nowMs' | 'minuteOfDay'>, Pick<CheckResult, 'offered'> {}

/** Asks the service for the wanted version, and plans. */
export class UpdateChecker {
  readonly #deps: LookoutDeps;
  #found: Found | undefined;

  constructor(deps: LookoutDeps) {
    this.#deps = deps;
  }

  /**
   * The last offer of the service, with the plan for it now: in the meantime it may have been installed, deferred, or
   * failed.
   */
  get lastLook(): CheckResult | undefined {
    return this.#found && this.#plan(this.#deps.ports.journal.state, { manual: false, force: false }, this.#found);
  }

  /** Checks without changing anything. */
  async check(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    return this.#evaluate(await this.#ask(signal, async () => {}), flags);
  }

  async #evaluate(offered: Version | undefined, flags: CheckOptions): Promise<CheckResult> {
    const { ports } = this.#deps;
    this.#found = { offered, meteredLink: await ports.meteredLink(), configProblem: await ports.configProblem() };
    const { state } = ports.journal;
    const next = offersAnother(state, offered) ? advance(state, named(offered)) : state;
    return this.#plan(next, flags, this.#found);
  }

  /** Returns what the service offers now. Records a failure of a version that is named like a trust list. */
  async offered(signal: AbortSignal): Promise<Version | undefined> {
    const { journal, clock } = this.#deps.ports;
    return this.#ask(signal, async (version) => {
      await journal.append({ type: 'list-rejected', version, at: isoTime(clock) });
    });
  }

  async #ask(signal: AbortSignal, reject: (version: Version) => Promise<void>): Promise<Version | undefined> {
    const { service, settings, ports } = this.#deps;
    const { state } = ports.journal;
    // an idle gateway installs it, which counts and reports the failure
    const isGenuine = async (version: Version): Promise<boolean> => {
      const isList = state.phase.kind === 'idle' || (await this.#isList(version, signal));
      if (!isList) await reject(version);
      return isList;
    };
    const lists = { number: await ports.listInEffect?.(), nowMs: ports.clock.nowMs(), isGenuine };
    const { follow, wholeImage = 'same' } = settings;
    return findCandidate(follow, { state, lists, wholeImage }, service, signal);
  }

  /** True if a version is a trust list, so that an update in progress may end for it. */
  async #isList({ id, name }: Version, signal: AbortSignal): Promise<boolean> {
    const { service, ports } = this.#deps;
    const readKind = async (within: AbortSignal): Promise<FirmwareHeader['kind']> =>
      (await headerOf(service.firmware(id), { ...ports, signal: within })).kind;
    const what = `${name}, which is named like a trust list, was skipped`;
    return (await this.#within(LIST_HEADER_MS, what, readKind, signal)) === 'trust-list';
  }

  /** Invariant 6: returns the result of work, or undefined if it fails or takes too long, which is logged. */
  async #within<T>(
    ms: number,
    what: string,
    work: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    using deadline = new Deadline(ms, () => new Error('the service took too long'), signal);
    try {
      return await work(deadline.signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof AgentError || deadline.signal.aborted)) throw error;
      this.#deps.ports.log.warn({}, `${what}: ${describeError(error)}`);
      return undefined;
    }
  }

  /** Asks the service before recovery: its offer may have changed. */
  async lookBeforeSettling(ports: UpdatePorts): Promise<void> {
    if (this.#deps.settings.follow.kind === 'none') return;
    await endUnwantedWait(async () => this.offered(ports.signal), ports);
    if (await runsOnTrial(ports)) await this.#takeListDuringTrial(ports);
  }

  /**
   * Applies a trust list before the health checks of a trial, since a release that the list revokes must not be
   * committed. The list is acknowledged afterwards.
   */
  async #takeListDuringTrial(ports: UpdatePorts): Promise<void> {
    const take = async (signal: AbortSignal): Promise<void> => {
      const offered = await this.offered(signal);
      if (offered === undefined || listNumber(offered.name) === undefined) return;
      await applyIfTrustList(this.#deps.service.firmware(offered.id), { ...ports, signal });
    };
    const what = 'a trust list could not be checked for before the health checks';
    await this.#within(LIST_CHECK_MS, what, take, ports.signal);
  }

  /** Checks, and records the offer and whether an operator installed just that. */
  async checkAndRecord(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    const { ports, service } = this.#deps;
    const { journal, clock } = ports;
    if (needsDate(journal.state, clock.nowMs()) && (await ports.isClockSet?.(signal)) !== false)
      await journal.append({ type: 'quarantine-started', at: isoTime(clock) });
    const offered = await this.offered(signal);
    const result = await this.#evaluate(offered, flags);
    const { plan } = result;
    if (offersAnother(journal.state, offered)) await journal.append(named(offered));
    if (plan.kind === 'up-to-date' && plan.trustList !== true) await clearOverride(journal);
    if (plan.kind !== 'reconcile') return result;
    const { id: versionId } = plan.version;
    const isFactory = journal.state.installed?.factory === true; // it has no digest, and its name is the image's own
    if (isFactory || (await isInstalled(service.firmware(versionId), { ...ports, signal }))) return result;
    await journal.append({ type: 'name-disambiguated', versionId });
    return this.#evaluate(offered, flags);
  }

  #plan(state: UpdateState, flags: CheckOptions, { offered, ...found }: Found): CheckResult {
    const { settings, ports, minuteOfDay } = this.#deps;
    const now = { nowMs: ports.clock.nowMs(), minuteOfDay: minuteOfDay() };
    return { offered, plan: planUpdate(state, offered, { policy: settings.policy, ...now, ...found, ...flags }) };
  }
}

/** Records that the service offers what an operator installed: nothing is overridden anymore. */
async function clearOverride(journal: UpdatePorts['journal']): Promise<void> {
  const { overrides, version } = journal.state.installed ?? {};
  if (overrides === undefined || version?.id === undefined) return;
  await journal.append({ type: 'reconciled', versionId: version.id, switchTo: false });
}

/** Boards alone are tried in the running slot; the power may have failed between arming a slot and recording that. */
async function runsOnTrial({ journal, bootloader, signal }: UpdatePorts): Promise<boolean> {
  const { phase } = journal.state;
  if ((phase.kind !== 'staged' && phase.kind !== 'trial') || phase.attempt.by === 'rollback') return false;
  return !hasSlotPayload(phase.firmware) || (await bootloader.bootedSlot(signal)) === phase.slot;
}

/**
 * True if the service offers another release than before. The first check shows which one an operator's file overrides.
 * A trust list replaces no release.
 */
function offersAnother({ named: last, installed }: UpdateState, offered: Version | undefined): boolean {
  if (offered !== undefined && listNumber(offered.name) !== undefined) return false;
  return last === undefined || last.id !== offered?.id || installed?.byHand === true;
}

function named(offered: Version | undefined): UpdateEvent & { readonly type: 'offer-changed' } {
  return { type: 'offer-changed', versionId: offered?.id };
}

/**
 * Guarantee `service-record`: true if the service has another current version than the committed one, so that
 * the switch must be sent again. A backup of the service, or a switch that something else answered, can be the reason.
 * An offered version is an order, not such a difference.
 */
export async function recordDiffers(
  { offered, plan }: CheckResult,
  { ports, service }: Pick<LookoutDeps, 'ports' | 'service'>,
  signal: AbortSignal,
): Promise<boolean> {
  const { journal, log } = ports;
  const { installed, pendingSwitch } = journal.state;
  const versionId = installed?.version.id;
  if (versionId === undefined || pendingSwitch !== undefined || plan.kind === 'install') return false;
  const recorded = await valueOrError(service.recordedVersion(signal));
  if (recorded === undefined || recorded instanceof AgentError || recorded.id === versionId) return false;
  if (recorded.id !== undefined && recorded.id === offered?.id) return false;
  log.warn({ recorded: recorded.id, versionId }, 'the current version of the service differs from the running version');
  await journal.append({ type: 'record-differs', versionId });
  return true;
}
