import { AgentError, describeError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { FullImage } from '../delta/full-image.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { UpdateEvent } from '../journal/events.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { UpdateState } from '../journal/state.ts';
import { advance } from '../journal/transitions.ts';
import type { ProvisioningService, Version } from '../ports.ts';
import { findCandidate } from './choose.ts';
import type { Follow } from './choose.ts';
import { TrustListDetector, applyIfTrustList } from './detect-trust-list.ts';
import type { DetectionOptions } from './detect-trust-list.ts';
import { needsDate } from './holds/versions.ts';
import { isoTime } from './install-request.ts';
import type { UpdatePorts } from './install-request.ts';
import { planUpdate } from './plan.ts';
import type { PlanInput, Plan, Policy } from './plan.ts';
import { isInstalled } from './presence.ts';
import { endUnwantedWait } from './withdraw.ts';

export interface LookSettings {
  readonly follow: Follow;
  readonly policy: Policy;
  /** Default: `same`. */
  readonly wholeImage?: FullImage;
}

type LookPort =
  | 'journal'
  | 'clock'
  | 'isClockSet'
  | 'openFirmware'
  | 'log'
  | 'meteredLink'
  | 'configTrouble'
  | 'listInEffect';

export interface LookoutDeps {
  readonly ports: Pick<UpdatePorts, LookPort>;
  readonly service: ProvisioningService;
  readonly settings: LookSettings;
  /** Minutes since local midnight; undefined: the clock is not set. */
  readonly minuteOfDay: () => number | undefined;
  /** Undefined: nobody is asked. */
  readonly hooks?: Pick<Hooks, 'wants'> | undefined;
}

/** Invariant 6: the deadline for asking about a list. Without an answer, the trial is judged nevertheless. */
const LIST_LOOK_MS = 60_000;

type SettlingPorts = Pick<
  UpdatePorts,
  'journal' | 'clock' | 'bootloader' | 'machine' | 'settings' | 'log' | 'openFirmware'
>;

export interface CheckOptions {
  /** A person waits for the result. */
  readonly manual: boolean;
  readonly force: boolean;
}

/** What the service offers, and what follows from it. */
export interface CheckResult {
  readonly offered: Version | undefined;
  readonly plan: Plan;
  /** It is known to be a list of keys and revocations, which waits for no hold and no consent. */
  readonly isList?: true;
}

/** What has to be asked for outside of this room. */
type Found = Pick<PlanInput, 'meteredLink' | 'configTrouble'>;

/** Asks the service what is to run, and plans. */
export class UpdateChecker {
  readonly #deps: LookoutDeps;
  /** What the last look found, besides what is in the journal. */
  #found: ({ readonly offered: Version | undefined } & Found) | undefined;
  readonly #scout: TrustListDetector;

  constructor(deps: LookoutDeps) {
    this.#deps = deps;
    this.#scout = new TrustListDetector(deps);
  }

  /**
   * What the service named last, and what would be done about it now: meanwhile it may be installed, have failed, or be
   * held.
   */
  get lastLook(): CheckResult | undefined {
    if (this.#found === undefined) return undefined;
    const { offered, ...found } = this.#found;
    const circumstances = this.#circumstances({ manual: false, force: false }, found);
    return lookOf(this.#deps.ports.journal.state, offered, circumstances);
  }

  /** Looks without changing anything, even if the header of a waiting version is read again. */
  async check(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    return this.#allowTrustList(await this.#check(flags, signal), { ...flags, counts: false }, signal);
  }

  async #check(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    const offered = await this.offered(signal);
    const { state } = this.#deps.ports.journal;
    return this.#plan(offersAnother(state, offered) ? advance(state, named(offered)) : state, offered, flags);
  }

  /** What the service names now; undefined: nothing. */
  async offered(signal: AbortSignal): Promise<Version | undefined> {
    const { service, settings, ports } = this.#deps;
    const lists = { number: await ports.listInEffect?.(), attempts: settings.policy.attempts };
    const { follow, wholeImage = 'same' } = settings;
    return findCandidate(follow, { state: ports.journal.state, lists, wholeImage }, service, signal);
  }

  /** Asks the service before settling: it may have named something else since. */
  async lookBeforeSettling(ports: SettlingPorts, signal: AbortSignal): Promise<void> {
    if (this.#deps.settings.follow.kind === 'none') return;
    await endUnwantedWait(async () => this.offered(signal), ports, signal);
    if (await runsOnTrial(ports, signal)) await this.#takeListDuringTrial(ports, signal);
  }

  /**
   * Takes a list before a trial is judged, since what the list revokes must not be kept. The list is acknowledged
   * afterwards.
   */
  async #takeListDuringTrial(ports: SettlingPorts, signal: AbortSignal): Promise<void> {
    using deadline = new Deadline(LIST_LOOK_MS, () => new Error('the service took too long'), signal);
    try {
      const offered = await this.offered(deadline.signal);
      if (offered === undefined || isOfAttempt(offered, ports.journal.state)) return;
      await applyIfTrustList(this.#deps.service.firmware(offered.id), ports, deadline.signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof AgentError || deadline.signal.aborted)) throw error;
      const why = describeError(error);
      ports.log.warn({}, `whether the service names a list of keys cannot be seen before the trial is judged: ${why}`);
    }
  }

  /** Looks, and notes what the service names and whether that is what a person installed. */
  async checkAndRecord(flags: CheckOptions, signal: AbortSignal): Promise<CheckResult> {
    const { ports, service } = this.#deps;
    const { journal, clock } = ports;
    if (needsDate(journal.state, clock.nowMs()) && (await ports.isClockSet?.(signal)) !== false)
      await journal.append({ type: 'quarantine-started', at: isoTime(clock) });
    const look = await this.#check(flags, signal);
    const { offered, plan } = look;
    if (offersAnother(journal.state, offered)) await journal.append(named(offered));
    if (plan.kind === 'up-to-date') await clearOverride(journal);
    if (plan.kind !== 'reconcile') return this.#allowTrustList(look, { ...flags, counts: true }, signal);
    const { id: versionId } = plan.version;
    const isFactory = journal.state.installed?.factory === true; // it has no digest, and its name is the image's own
    if (isFactory || (await isInstalled(service.firmware(versionId), ports, signal))) return look;
    await journal.append({ type: 'name-disambiguated', versionId });
    const again = await this.#plan(journal.state, offered, flags);
    return this.#allowTrustList(again, { ...flags, counts: true }, signal);
  }

  /**
   * Guarantee `revocation`: lets a list of keys and revocations pass, whatever holds back what the service names. What it
   * forbids must not run on until a person lifts a hold, a window opens, a hook consents, or failures of the connection
   * are forgotten.
   */
  async #allowTrustList(
    look: CheckResult,
    flags: CheckOptions & DetectionOptions,
    signal: AbortSignal,
  ): Promise<CheckResult> {
    const { offered, plan } = look;
    const { ports, hooks } = this.#deps;
    if (offered === undefined || (plan.kind === 'install' && hooks?.wants('before_install') !== true)) return look;
    const unheld = planUpdate(ports.journal.state, offered, this.#circumstances({ ...flags, force: true }));
    if (unheld.kind !== 'install' || !(await this.#scout.isList(offered, flags, signal))) return look;
    return { offered, plan: unheld, isList: true };
  }

  async #plan(state: UpdateState, offered: Version | undefined, flags: CheckOptions): Promise<CheckResult> {
    const { ports } = this.#deps;
    const found = { meteredLink: await ports.meteredLink?.(), configTrouble: await ports.configTrouble?.() };
    this.#found = { offered, ...found };
    return lookOf(state, offered, this.#circumstances(flags, found));
  }

  #circumstances(flags: CheckOptions, found?: Found): PlanInput {
    const { settings, ports, minuteOfDay } = this.#deps;
    return {
      policy: settings.policy,
      nowMs: ports.clock.nowMs(),
      minuteOfDay: minuteOfDay(),
      ...found,
      ...flags,
    };
  }
}

/**
 * The look at an offered version. A list that was taken before is known as one; a version still to be installed may be
 * something else under the same name.
 */
function lookOf(state: UpdateState, offered: Version | undefined, circumstances: PlanInput): CheckResult {
  const plan = planUpdate(state, offered, circumstances);
  const isTaken = plan.kind === 'up-to-date' && state.listVersion === offered?.id;
  return { offered, plan, ...(isTaken && { isList: true }) };
}

/** Notes that the service names what a person had installed instead: nothing is overridden any more. */
async function clearOverride(journal: UpdatePorts['journal']): Promise<void> {
  const { overrides, version } = journal.state.installed ?? {};
  if (overrides === undefined || version?.id === undefined) return;
  await journal.append({ type: 'reconciled', versionId: version.id, switchTo: false });
}

/** Boards alone are tried where the agent runs; a power cut may have come between arming a slot and writing that down. */
async function runsOnTrial({ journal, bootloader }: SettlingPorts, signal: AbortSignal): Promise<boolean> {
  const { phase } = journal.state;
  if ((phase.kind !== 'staged' && phase.kind !== 'trial') || phase.attempt.by === 'rollback') return false;
  return !hasSlotPayload(phase.firmware) || (await bootloader.bootedSlot(signal)) === phase.slot;
}

function isOfAttempt({ id }: Version, { phase }: UpdateState): boolean {
  return 'attempt' in phase && phase.attempt.version.id === id;
}

/**
 * Whether the service names another version than before. For a person's firmware, the first look tells what it
 * overrides.
 */
function offersAnother({ named: last, installed }: UpdateState, offered: Version | undefined): boolean {
  return last === undefined || last.id !== offered?.id || installed?.byHand === true;
}

function named(offered: Version | undefined): UpdateEvent & { readonly type: 'offer-changed' } {
  return { type: 'offer-changed', versionId: offered?.id };
}
