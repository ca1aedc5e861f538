import { AgentError, describeError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { WholeImage } from '../delta/whole-image.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { UpdateEvent } from '../journal/events.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { UpdateState } from '../journal/state.ts';
import { advance } from '../journal/transitions.ts';
import type { ProvisioningService, Version } from '../ports.ts';
import { lookForVersion } from './choose.ts';
import type { Follow } from './choose.ts';
import { ListScout, takeIfList } from './header.ts';
import type { Scouting } from './header.ts';
import { isInstalled } from './held.ts';
import { isoTime } from './order.ts';
import type { UpdatePorts } from './order.ts';
import { planUpdate } from './plan.ts';
import type { Circumstances, Plan, Policy } from './plan.ts';
import { needsDate } from './quarantine.ts';
import { endUnwantedWait } from './withdraw.ts';

export interface LookSettings {
  readonly follow: Follow;
  readonly policy: Policy;
  /** `same`, if not given. */
  readonly wholeImage?: WholeImage;
}

type LookPort = 'journal' | 'clock' | 'isClockSet' | 'openFirmware' | 'log' | 'meteredLink' | 'listInEffect';

export interface LookoutParts {
  readonly ports: Pick<UpdatePorts, LookPort>;
  readonly service: ProvisioningService;
  readonly settings: LookSettings;
  /** Minutes since local midnight; undefined: the clock is not set. */
  readonly minuteOfDay: () => number | undefined;
  /** Undefined: nobody is asked. */
  readonly hooks?: Pick<Hooks, 'wants'> | undefined;
}

/** Of the whole question; without an answer the trial is judged all the same. */
const LIST_LOOK_MS = 60_000;

type SettlingPorts = Pick<
  UpdatePorts,
  'journal' | 'clock' | 'bootloader' | 'machine' | 'settings' | 'log' | 'openFirmware'
>;

export interface LookOptions {
  /** A person waits for it. */
  readonly manual: boolean;
  readonly force: boolean;
}

/** What was found at the service, and what it means. */
export interface Look {
  readonly offered: Version | undefined;
  readonly plan: Plan;
  /** It is known to be a list of keys and revocations, which waits for no hold and no consent. */
  readonly isList?: true;
}

/** Asks the service what is to run, and plans. */
export class Lookout {
  readonly #parts: LookoutParts;
  /** What the last look found outside of the journal. */
  #found: { readonly offered: Version | undefined; readonly meteredLink: string | undefined } | undefined;
  readonly #scout: ListScout;

  constructor(parts: LookoutParts) {
    this.#parts = parts;
    this.#scout = new ListScout(parts);
  }

  /** What the service named last, and what would be done about it now: it may be installed since, have failed, or be held. */
  get lastLook(): Look | undefined {
    if (this.#found === undefined) return undefined;
    const { offered, meteredLink } = this.#found;
    const circumstances = this.#circumstances({ manual: false, force: false }, meteredLink);
    return lookOf(this.#parts.ports.journal.state, offered, circumstances);
  }

  /** Changes nothing, also not when the header of what has to wait is read again. */
  async look(options: LookOptions, signal: AbortSignal): Promise<Look> {
    return this.#letListPass(await this.#look(options, signal), { ...options, counts: false }, signal);
  }

  async #look(options: LookOptions, signal: AbortSignal): Promise<Look> {
    const offered = await this.offered(signal);
    const { state } = this.#parts.ports.journal;
    return this.#plan(namesOther(state, offered) ? advance(state, named(offered)) : state, offered, options);
  }

  /** What the service names now; undefined: nothing. */
  async offered(signal: AbortSignal): Promise<Version | undefined> {
    const { service, settings, ports } = this.#parts;
    const lists = { number: await ports.listInEffect?.(), attempts: settings.policy.attempts };
    const { follow, wholeImage = 'same' } = settings;
    return lookForVersion(follow, { state: ports.journal.state, lists, wholeImage }, service, signal);
  }

  /** Before what the journal says is gone on with: the service may have named something else since. */
  async lookBeforeSettling(ports: SettlingPorts, signal: AbortSignal): Promise<void> {
    if (this.#parts.settings.follow.kind === 'none') return;
    await endUnwantedWait(async () => this.offered(signal), ports, signal);
    if (await runsOnTrial(ports, signal)) await this.#takeListDuringTrial(ports, signal);
  }

  /** What a list revokes is not kept: it takes effect before the trial is judged, and is acknowledged after it. */
  async #takeListDuringTrial(ports: SettlingPorts, signal: AbortSignal): Promise<void> {
    using deadline = new Deadline(LIST_LOOK_MS, () => new Error('the service took too long'), signal);
    try {
      const offered = await this.offered(deadline.signal);
      if (offered === undefined || isOfAttempt(offered, ports.journal.state)) return;
      await takeIfList(this.#parts.service.firmware(offered.id), ports, deadline.signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof AgentError || deadline.signal.aborted)) throw error;
      const why = describeError(error);
      ports.log.warn({}, `whether the service names a list of keys cannot be seen before the trial is judged: ${why}`);
    }
  }

  /** What the look finds out is kept: what the service names, and whether that is what a person installed. */
  async lookAndNote(options: LookOptions, signal: AbortSignal): Promise<Look> {
    const { ports, service } = this.#parts;
    const { journal, clock } = ports;
    if (needsDate(journal.state, clock.nowMs()) && (await ports.isClockSet?.(signal)) !== false)
      await journal.append({ type: 'quarantine-dated', at: isoTime(clock) });
    const look = await this.#look(options, signal);
    const { offered, plan } = look;
    if (namesOther(journal.state, offered)) await journal.append(named(offered));
    if (plan.kind === 'up-to-date') await agree(journal);
    if (plan.kind !== 'reconcile') return this.#letListPass(look, { ...options, counts: true }, signal);
    const { id: versionId } = plan.version;
    const isFactory = journal.state.installed?.factory === true; // it has no digest, and its name is the image's own word
    if (isFactory || (await isInstalled(service.firmware(versionId), ports, signal))) return look;
    await journal.append({ type: 'told-apart', versionId });
    const again = await this.#plan(journal.state, offered, options);
    return this.#letListPass(again, { ...options, counts: true }, signal);
  }

  /**
   * A list of keys and revocations takes effect at once, whatever holds back what the service names: what it forbids must not run on
   * until a person lifts a hold, a window opens, a hook consents, or failures of the way to the service are forgotten.
   */
  async #letListPass(look: Look, options: LookOptions & Scouting, signal: AbortSignal): Promise<Look> {
    const { offered, plan } = look;
    const { ports, hooks } = this.#parts;
    if (offered === undefined || (plan.kind === 'install' && hooks?.wants('before_install') !== true)) return look;
    const unheld = planUpdate(ports.journal.state, offered, this.#circumstances({ ...options, force: true }));
    if (unheld.kind !== 'install' || !(await this.#scout.isList(offered, options, signal))) return look;
    return { offered, plan: unheld, isList: true };
  }

  async #plan(state: UpdateState, offered: Version | undefined, options: LookOptions): Promise<Look> {
    const meteredLink = await this.#parts.ports.meteredLink?.();
    this.#found = { offered, meteredLink };
    return lookOf(state, offered, this.#circumstances(options, meteredLink));
  }

  #circumstances(options: LookOptions, meteredLink?: string): Circumstances {
    const { settings, ports, minuteOfDay } = this.#parts;
    return {
      policy: settings.policy,
      nowMs: ports.clock.nowMs(),
      minuteOfDay: minuteOfDay(),
      meteredLink,
      ...options,
    };
  }
}

/** What was taken as a list before is one; what is to be installed may be another thing under the same name. */
function lookOf(state: UpdateState, offered: Version | undefined, circumstances: Circumstances): Look {
  const plan = planUpdate(state, offered, circumstances);
  const isTaken = plan.kind === 'up-to-date' && state.listVersion === offered?.id;
  return { offered, plan, ...(isTaken && { isList: true }) };
}

/** The service names what a person had installed instead of something else: nothing is overridden any more. */
async function agree(journal: UpdatePorts['journal']): Promise<void> {
  const { overrides, version } = journal.state.installed ?? {};
  if (overrides === undefined || version?.id === undefined) return;
  await journal.append({ type: 'reconciled', versionId: version.id, switchTo: false });
}

async function runsOnTrial({ journal, bootloader }: SettlingPorts, signal: AbortSignal): Promise<boolean> {
  const { phase } = journal.state;
  if (phase.kind !== 'trial' || phase.attempt.by === 'rollback' || !hasSlotPayload(phase.firmware)) return false;
  return (await bootloader.bootedSlot(signal)) === phase.slot;
}

function isOfAttempt({ id }: Version, { phase }: UpdateState): boolean {
  return 'attempt' in phase && phase.attempt.version.id === id;
}

/** A person's firmware learns at the first look what the service names instead of it. */
function namesOther({ named: last, installed }: UpdateState, offered: Version | undefined): boolean {
  return last === undefined || last.id !== offered?.id || installed?.byHand === true;
}

function named(offered: Version | undefined): UpdateEvent & { readonly type: 'named' } {
  return { type: 'named', versionId: offered?.id };
}
