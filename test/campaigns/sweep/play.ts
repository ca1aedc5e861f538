import type { OnEvent, OperationOutcome } from '../../../src/control/events.ts';
import { isWithin } from '../../../src/system/time/daily-window.ts';
import type { FaultCounts } from './faults.ts';
import type { Catalog } from './gateway/catalog.ts';
import { ignoreEvents, MORNING } from './gateway/program.ts';
import type { Program } from './gateway/program.ts';
import { sourceOf } from './gateway/sending.ts';
import { demand, isIdentityStored, judgePackage, judgeRest, judgeTold, judgeTrials } from './invariants.ts';
import { Life } from './life.ts';
import type { Case, Ended, Remains, Script } from './life.ts';
import type { Deed, Scenario } from './story.ts';
import { Violation } from './violation.ts';

export interface Played {
  /** Durable changes after the last cut, by name. */
  readonly steps: readonly string[];
  /** Interruptions that happened; the others came too late. */
  readonly cuts: number;
  readonly faultChances: FaultCounts;
  /** Results of the attempts, as reported to the service. */
  readonly ends: readonly string[];
  /** Result of the last check. */
  readonly last: string;
  readonly violation: string | undefined;
}

/** A point at which a history can continue: after the prologue, or after an interruption. */
export interface Bookmark {
  readonly remains: Remains;
  readonly deed: number;
  /** The action had begun. */
  readonly begun: boolean;
}

/** Limit of checks after which a gateway must be at rest. */
const MAX_LOOKS = 80;
/**
 * Limit of checks without an action: the gateway waits longer after each failure. Two faults of 20 failures with the
 * longest pause of 95 checks after each are 3,800.
 */
const MAX_SKIPPED_LOOKS = 4_000;
/** Limit of an operator's commands. */
const MAX_COMMANDS = 25;
/** Power failures in a row before the agent could say that it runs: fewer than any boot counter. */
const SILENT_STARTS = 1;
const MAX_REBOOTS_BY_HAND = 8;
const IDLE_ROUNDS = 2;
/** Two in each attempt, and three attempts: so often the power may fail in them before the firmware is blamed. */
const TRIALS_OF_A_VERSION = 6;
/** Every nth seed: it costs as much as a story. */
const IDLE_EVERY = 3;
const LOOK_EVERY_MS = 15 * 60_000;
const DAY_MS = 24 * 3_600_000;
/** A clock before this one was not set. */
const CLOCK_SET_MS = Date.UTC(2027, 0, 1);
/** From UTC to Tokyo. */
const ZONE_STEP_MINUTES = 9 * 60;

type Operation = Extract<Deed, { do: 'update' | 'install' | 'rollback' | 'commit' | 'cancel' | 'overrule' }>;

/** Actions that restart the machine. */
type Start = Extract<Deed, { do: 'reboot' | 'foreign-reboot' | 'fall-back' | 'move-card' }>;

function isStart(deed: Deed): deed is Start {
  return ['reboot', 'foreign-reboot', 'fall-back', 'move-card'].includes(deed.do);
}

/** Deferrals that end without an action. */
const passing: ReadonlySet<string> = new Set(['retry-backoff', 'flapping', 'outside-reboot-window', 'hook-deferred']);

class Bookmarked extends Error {}

/** The bookmark behind the prologue. */
export async function playPrologue(script: Script): Promise<Bookmark> {
  const history = new History(script, undefined);
  await history.tell(script.scenario.prologue);
  history.life.gateway.hardware.sync();
  return { ...history.bookmark, deed: 0, begun: false };
}

/** Plays up to the first interruption; returns undefined if it comes too late. Throws Violation. */
export async function playToCut(script: Script, from: Bookmark): Promise<Bookmark | undefined> {
  const history = new History(script, from);
  history.stopAtCut = true;
  try {
    await history.tell(storyOf(script.scenario));
    return undefined;
  } catch (error) {
    if (error instanceof Bookmarked) return history.bookmark;
    throw error;
  }
}

/** Plays the whole story, and a little beyond. */
export async function play(script: Script, from: Bookmark): Promise<Played> {
  const history = new History(script, from);
  let violation: string | undefined;
  try {
    await history.tell(storyOf(script.scenario));
    await history.judgeEnd();
    if (script.given.seed % IDLE_EVERY === 0 && history.life.isOfOneMind) await history.idle();
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = error.message;
  }
  return { ...history.summary, violation };
}

/** At the end, only a pending reboot is done. */
function storyOf({ story }: Scenario): readonly Deed[] {
  return [...story, { do: 'finish' }];
}

class History {
  readonly life: Life;
  stopAtCut = false;
  readonly #scenario: Scenario;
  readonly #case: Case;
  readonly #catalog: Catalog;
  #deed: number;
  #begun: boolean;
  #last: Ended = { kind: 'cut' };
  #steps: readonly string[] | undefined;

  constructor(script: Script, from: Bookmark | undefined) {
    this.#scenario = script.scenario;
    this.#case = script.given;
    this.#catalog = script.catalog;
    this.#deed = from?.deed ?? 0;
    this.#begun = from?.begun ?? false;
    this.life = new Life(script, from?.remains, () => {
      if (this.stopAtCut) throw new Bookmarked();
    });
  }

  get bookmark(): Bookmark {
    return { remains: this.life.remains, deed: this.#deed, begun: this.#begun };
  }

  get summary(): Omit<Played, 'violation'> {
    const { hardware, transport } = this.life.gateway;
    const ends = new Map(
      transport.reports.map(({ attempt, version, outcome, code }) => [
        attempt,
        `${version} ${outcome}${code === 'ok' ? '' : ` ${code}`}`,
      ]),
    );
    return {
      steps: this.#steps ?? hardware.power.history,
      cuts: this.life.cutsMade,
      faultChances: hardware.faults.seen,
      ends: [...ends.values()],
      last: describe(this.#last),
    };
  }

  async tell(deeds: readonly Deed[]): Promise<void> {
    for (; this.#deed < deeds.length; this.#deed += 1) {
      const deed = deeds[this.#deed];
      const isHalfDone = this.#begun && deed?.do !== 'rest' && deed?.do !== 'finish';
      this.#begun = true;
      if (deed !== undefined && !isHalfDone) await this.#perform(deed);
      this.#begun = false;
    }
    this.#steps = this.life.gateway.hardware.power.history;
  }

  async judgeEnd(): Promise<void> {
    const { gateway, cutsMade } = this.life;
    gateway.hardware.power.restore();
    await gateway.hardware.app.tick(); // the guard sees the end in the journal
    const { state } = this.life;
    demand(state !== undefined, 'there is no journal at the end');
    judgeRest(gateway, state);
    judgePackage(gateway, state);
    if (!this.#scenario.story.some((deed) => deed.do === 'update' && deed.force)) judgeTrials(gateway);
    if (this.#scenario.waitsFor === 'window and hooks') judgeTold(gateway);
    const runs = gateway.chronicle.imageIn(gateway.hardware.boot.booted)?.id ?? 'nothing';
    const { wants, ends } = this.#scenario;
    const hasFaults = this.#case.faults.length > 0;
    demand(
      runs === wants || this.#mayRunInstead(runs),
      `${runs} runs at the end, not ${wants}: ${describe(this.#last)}`,
    );
    if (cutsMade > 0 || hasFaults) return;
    const told = this.summary.ends.join(', ');
    demand(told.endsWith(ends.join(', ')), `the service was told "${told}"`);
  }

  /** The new version may have been missed, discarded after a power loss, or abandoned by the bootloader. */
  #mayRunInstead(id: string): boolean {
    const { mayMiss, mayRun } = this.#scenario;
    const { cutsMade } = this.life;
    const hasFaults = this.#case.faults.length > 0;
    // After a commit, as many silent interruptions as a bootloader counts.
    const fellBack = cutsMade > SILENT_STARTS + 1 && this.summary.ends.some((end) => end.endsWith(' fell-back'));
    if (cutsMade >= TRIALS_OF_A_VERSION || fellBack || hasFaults) return [...mayMiss, ...mayRun].includes(id);
    return cutsMade > 0 && mayMiss.includes(id);
  }

  /** Left alone with a bad power supply, a gateway at rest stays what it is. */
  async idle(): Promise<void> {
    const { life } = this;
    const { boot } = life.gateway.hardware;
    const before = boot.booted;
    life.calm();
    for (let round = 0; round < IDLE_ROUNDS; round += 1) {
      for (let starts = 0; starts <= SILENT_STARTS; starts += 1) life.restart();
      await life.serve(async () => ({ kind: 'up-to-date', version: '' }));
      demand(boot.booted === before, `slot ${before} ran, and now slot ${boot.booted} does, without any reason`);
    }
    await this.#rest();
    await this.judgeEnd();
  }

  async #perform(deed: Deed): Promise<void> {
    const { life } = this;
    if (isStart(deed)) return this.#start(deed);
    switch (deed.do) {
      case 'target':
        return this.#offer(deed);
      case 'look':
        return this.#look();
      case 'rest':
        return this.#rest();
      case 'finish':
        return this.#finish();
      case 'overrule':
      case 'cancel':
      case 'commit':
      case 'update':
      case 'install':
      case 'rollback':
        await life.act(async (program) => this.#operate(program, deed));
    }
  }

  async #operate({ updater, signal }: Pick<Program, 'updater' | 'signal'>, deed: Operation): Promise<OperationOutcome> {
    const options = { reboot: true, force: false };
    switch (deed.do) {
      case 'update':
        return updater.updateNow({ ...deed, manual: true }, ignoreEvents, signal);
      case 'install': {
        const source = sourceOf(this.#catalog.entry(deed.version).decoded);
        return updater.installFile(source, deed.version, options, { onEvent: ignoreEvents, signal });
      }
      case 'overrule':
        await judgeUntilHealth(updater, signal);
        return this.#operate({ updater, signal }, { do: deed.by });
      case 'rollback':
        return updater.rollback({ ...options, ...deed }, ignoreEvents, signal);
      case 'cancel':
        return updater.cancel(ignoreEvents, signal);
      case 'commit':
        this.life.gateway.chronicle.keptByHand = true;
        return updater.commit(ignoreEvents, signal);
    }
  }

  #offer({ version, after }: Extract<Deed, { do: 'target' }>): void {
    const { hardware, transport } = this.life.gateway;
    transport.target = version;
    if (after === 'a year') hardware.nowMs = Math.max(hardware.nowMs, CLOCK_SET_MS) + 365 * DAY_MS;
  }

  async #finish(): Promise<void> {
    for (let reboots = 0; reboots <= MAX_REBOOTS_BY_HAND; reboots += 1) {
      await this.#rest();
      if (this.#last.kind !== 'reboot-required') return this.#restAfterADay();
      await this.#reboot();
    }
    throw new Violation('it waits for a reboot by hand again and again');
  }

  /** Once a day, the agent compares the service's record with the running version. */
  async #restAfterADay(): Promise<void> {
    const { hardware } = this.life.gateway;
    hardware.faults.end();
    hardware.nowMs += DAY_MS;
    await this.#rest();
  }

  async #start(deed: Start): Promise<void> {
    if (deed.do === 'reboot') return this.#reboot();
    if (deed.do === 'fall-back') return this.life.fallBack();
    if (deed.do === 'move-card') return this.life.moveCard();
    // Two cuts and this, each before the agent could say that it runs, are as many starts as a bootloader counts.
    if (this.life.cutsMade > SILENT_STARTS) await this.life.serve(async () => ({ kind: 'up-to-date', version: '' }));
    this.life.gateway.hardware.missesState = deed.withoutState === true;
    await this.life.act(rebootForeign);
    return undefined;
  }

  async #reboot(): Promise<void> {
    let ended: Ended = { kind: 'cut' };
    for (let commands = 0; commands === 0 || (ended.kind === 'failed' && commands < MAX_COMMANDS); commands += 1) {
      ended = await this.life.act(rebootByHand);
    }
  }

  async #look(): Promise<void> {
    const { hardware } = this.life.gateway;
    hardware.nowMs += LOOK_EVERY_MS;
    if (hardware.faults.strikes('zone-changed')) hardware.zoneMinutes += ZONE_STEP_MINUTES;
    this.#last = await this.life.serve(async ({ updater, signal }) =>
      updater.updateNow({ reboot: true, force: false, manual: false }, ignoreEvents, signal),
    );
    if (this.#last.kind === 'failed' && this.#last.error.code === 'identity-foreign') this.life.restartAgent();
    this.#judgeWindow();
  }

  /** The agent boots a staged slot within its window; it may roll back at any time. */
  #judgeWindow(): void {
    const { hardware, chronicle } = this.life.gateway;
    if (
      this.#scenario.waitsFor === undefined ||
      this.#last.kind !== 'rebooting' ||
      hardware.boot.booted !== chronicle.trying
    )
      return;
    demand(isWithin(MORNING, hardware.minuteOfDay), 'a trial was begun outside of the reboot window');
  }

  async #rest(): Promise<void> {
    let [looks, skipped] = [0, 0];
    while (looks < MAX_LOOKS && skipped < MAX_SKIPPED_LOOKS) {
      await this.#look();
      if (this.#rests()) return;
      if (this.#last.kind === 'deferred') skipped += 1;
      else looks += 1;
    }
    throw new Violation(`it does not come to rest; the last look: ${describe(this.#last)}`);
  }

  #rests(): boolean {
    const last = this.#last;
    if (last.kind === 'reboot-required') return true;
    if (last.kind !== 'up-to-date' && (last.kind !== 'deferred' || passing.has(last.code))) return false;
    const { state } = this.life;
    const isTold = state !== undefined && state.pendingSwitch === undefined && state.reports.length === 0;
    return isTold && state.unfit?.told !== false && isIdentityStored(this.life.gateway);
  }
}

/** Runs health checks as the daemon does, and yields as soon as the application's health is requested. */
async function judgeUntilHealth(updater: Program['updater'], signal: AbortSignal): Promise<void> {
  const gaveWay = new AbortController();
  const reason = new Error('a person decides');
  const onEvent: OnEvent = (event) => {
    if (event.kind === 'phase' && event.phase === 'health') gaveWay.abort(reason);
  };
  try {
    await updater.settle(onEvent, AbortSignal.any([signal, gaveWay.signal]));
  } catch (error) {
    if (error !== reason) throw error;
  }
}

/** As daemon/agent.ts does it. */
async function rebootByHand({ updater, signal }: Program): Promise<OperationOutcome> {
  await updater.reboot(undefined, signal);
  return { kind: 'up-to-date', version: '' };
}

async function rebootForeign({ machine, signal }: Program): Promise<OperationOutcome> {
  await machine.reboot(undefined, signal);
  return { kind: 'up-to-date', version: '' };
}

function describe(ended: Ended): string {
  if (ended.kind === 'failed') return `${ended.error.code}: ${ended.error.message}`;
  if (ended.kind === 'deferred') return `${ended.version} is held back (${ended.code}): ${ended.reason}`;
  return ended.kind === 'up-to-date' ? `${ended.version} is up to date` : ended.kind;
}
