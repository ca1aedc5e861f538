import { violationsAtRest, violationsNow } from './invariants.ts';
import { isGood } from './rig.ts';
import type { Firmware, Rig } from './rig.ts';
import type { RunEnd, Strike } from './strike.ts';

/** A wish of the operator or the owner. */
export type Wish =
  | {
      readonly kind: 'update';
      readonly firmware: Firmware;
      readonly by: 'command' | 'daemon';
      /** In the middle of the transfer, where it leaves a checkpoint. */
      readonly isLineCut?: boolean;
    }
  | { readonly kind: 'install'; readonly firmware: Firmware }
  | { readonly kind: 'rollback' }
  | { readonly kind: 'activate' };

/** A wish, and the kills of the agent in between: index 0 in its first run, and so on. */
export interface Episode {
  readonly wish: Wish;
  readonly strikes: readonly (Strike | undefined)[];
}

/** A strike that came before the run had ended, and the phase that the journal was in. */
export interface StruckRun {
  readonly strike: Strike;
  readonly phase: string;
}

export interface EpisodeReport {
  readonly violations: readonly string[];
  readonly struck: readonly StruckRun[];
  readonly runs: number;
  /** Number of runs that resumed a previous transfer. */
  readonly resumed: number;
  /** All output, for the message of a failure. */
  readonly story: string;
}

/** After this number of runs without a kill, the gateway must be at rest. */
const CALM_RUNS = 8;

export async function playEpisode(rig: Rig, episode: Episode): Promise<EpisodeReport> {
  const play = new Play(rig, await prepare(rig, episode.wish));
  const mostRuns = episode.strikes.length + CALM_RUNS;
  while (!play.isOver && play.runs < mostRuns) await play.run(episode.strikes[play.runs]);
  return play.report();
}

class Play {
  readonly #rig: Rig;
  readonly #intent: Intent;
  readonly #violations: string[] = [];
  readonly #struck: StruckRun[] = [];
  #story = '';
  #isAtRest = false;
  #resumed = 0;
  runs = 0;

  constructor(rig: Rig, intent: Intent) {
    this.#rig = rig;
    this.#intent = intent;
  }

  get isOver(): boolean {
    return this.#isAtRest || this.#violations.length > 0;
  }

  /** Runs the agent until it exits or is killed, with the aftermath for the machine. */
  async run(strike: Strike | undefined): Promise<void> {
    const { args, followingArgs } = this.#intent;
    const typed = this.runs === 0 ? args : followingArgs;
    const { view, ledger } = this.#rig;
    const { arrivedBytes } = view;
    const before = ledger.firmwareCalls.length;
    const end = await this.#rig.run({ args: typed, strike, isEnough: roundsOf(typed) });
    this.#judgeTransfer(arrivedBytes, ledger.firmwareCalls[before]);
    this.#story += describeRun(typed, end);
    this.#violations.push(...complaintsAbout(end));
    await this.#followUp(end, typed === followingArgs);
    this.#violations.push(...violationsNow(this.#rig));
    this.runs += 1;
  }

  /** Durable parts of a transfer are not transferred again. */
  #judgeTransfer(arrivedBytes: number | undefined, call: string | undefined): void {
    if (arrivedBytes === undefined || call === undefined) return;
    this.#resumed += 1;
    const wanted = `bytes=${arrivedBytes}-`;
    if (call !== wanted) this.#violations.push(`${call} was asked for, not ${wanted}, up to which it was there`);
  }

  report(): EpisodeReport {
    const violations = [...this.#violations];
    if (this.#isAtRest)
      violations.push(...violationsAtRest(this.#rig), ...this.#intent.unfulfilled(this.#struck.length));
    else if (violations.length === 0) violations.push('the gateway does not come to rest');
    const { runs } = this;
    return { violations, struck: this.#struck, runs, resumed: this.#resumed, story: this.#story };
  }

  async #followUp({ struck }: RunEnd, mayBeTheLast: boolean): Promise<void> {
    const { gateway, view } = this.#rig;
    if (struck !== undefined) {
      await this.#rig.recover(struck.aftermath);
      this.#struck.push({ strike: struck, phase: view.journal?.phase.kind ?? 'none' });
    } else if (gateway.rebootRequested) {
      this.#story += `reboot: slot ${gateway.boot()}\n`;
    } else {
      this.#isAtRest = !this.#rig.giveWhole() && mayBeTheLast;
    }
  }
}

interface Intent {
  readonly args: readonly string[];
  readonly followingArgs: readonly string[];
  /** Expected results that are missing. */
  readonly unfulfilled: (strikes: number) => readonly string[];
}

async function prepare(rig: Rig, wish: Wish): Promise<Intent> {
  const before = rig.view.imageIn(rig.view.booted)?.label;
  const running = (): string | undefined => rig.view.imageIn(rig.view.booted)?.label;
  const shouldRun = (...labels: readonly (string | undefined)[]): readonly string[] =>
    labels.includes(running()) ? [] : [`${running()} runs, not ${labels.join(' or ')}`];
  const now = ['--update-now'];
  switch (wish.kind) {
    case 'update': {
      const version = await rig.publish(wish.firmware);
      rig.service.clearFaults();
      if (wish.isLineCut === true) rig.cutLineOnce();
      const args = wish.by === 'daemon' ? ['run'] : now;
      // A good release that is killed again and again on its trial is discarded in the end.
      const unfulfilled = (strikes: number): readonly string[] =>
        isGood(wish.firmware) ? shouldRun(version, strikes > 1 ? before : version) : shouldRun(before);
      return { args, followingArgs: args, unfulfilled };
    }
    case 'install': {
      const { path, label } = await rig.usbStick(wish.firmware);
      const unfulfilled = (strikes: number): readonly string[] =>
        isGood(wish.firmware) ? shouldRun(label, strikes > 0 ? before : label) : shouldRun(before);
      return { args: ['install', path], followingArgs: now, unfulfilled };
    }
    case 'rollback': {
      const previous = rig.view.journal?.earlier.find(({ slot }) => slot !== rig.view.booted)?.version.name;
      const unfulfilled = (strikes: number): readonly string[] =>
        previous === undefined ? shouldRun(before) : shouldRun(previous, strikes > 0 ? before : previous);
      return { args: ['rollback'], followingArgs: now, unfulfilled };
    }
    case 'activate':
      return { args: ['activate'], followingArgs: now, unfulfilled: () => shouldRun(before) };
  }
}

/** The daemon is asked to stop when it has settled and looked once. */
function roundsOf([command]: readonly string[]): ((line: string) => boolean) | undefined {
  if (command !== 'run') return undefined;
  let rounds = 0;
  return (line) => {
    if (/\boutcome=|the (check|recovery) failed/.test(line)) rounds += 1;
    return rounds >= 2 || line.includes('outcome=rebooting');
  };
}

/** 77: rejected, deferred, or without a previous version. 70: a trial ended, with a message. */
const EXPECTED_EXITS: ReadonlySet<number | null> = new Set([0, 77]);
const rolledBack = / (is|was) (undone|rolled back)\b/;

function complaintsAbout({ struck, exitCode, output }: RunEnd): readonly string[] {
  const found: string[] = [];
  const isExpected = EXPECTED_EXITS.has(exitCode) || (exitCode === 70 && rolledBack.test(output));
  if (struck === undefined && !isExpected) found.push(`the agent ended with ${exitCode}`);
  if (/\n\s+at |unexpected failure/.test(output)) found.push('a person saw a stack trace');
  return found;
}

function describeRun(args: readonly string[], { struck, exitCode, output }: RunEnd): string {
  const end = struck === undefined ? `exit ${exitCode}` : JSON.stringify(struck);
  return `$ agent ${args.join(' ')} → ${end}\n${output.replaceAll(/^/gm, '    ')}\n`;
}
