import { seededRandom } from '../../fakes/machine/power.ts';
import { drawEpisode } from './draw.ts';
import { playEpisode } from './episode.ts';
import type { Episode } from './episode.ts';
import { Rig } from './rig.ts';
import type { Aftermath, Strike } from './strike.ts';

export interface CampaignOptions {
  /** Minimum number of kills. */
  readonly kills: number;
  readonly seed: number;
  /** Gateways at a time. */
  readonly gateways: number;
  readonly onEpisode?: (tally: Tally) => void;
  /** Aborted: no further episode, and everything is put away. */
  readonly signal?: AbortSignal;
}

export interface Failure {
  readonly episode: Episode;
  readonly violations: readonly string[];
  readonly story: string;
}

/** Number of actions by kind. */
export interface Tally {
  kills: number;
  episodes: number;
  runs: number;
  readonly by: Record<string, number>;
  readonly failures: Failure[];
}

const MOST_FAILURES = 5;

/** Approximate number of steps of an update: the run that stages, and the run that checks its health. */
const STEPS_OF_AN_UPDATE = 80;

/**
 * First each step of an update on its own, or every n-th where few kills are wanted, so that they are half of them at most.
 * Then episodes at random until there were enough kills. An episode's number and the seed say what happens in it; when
 * exactly, the machine does.
 */
export async function runCampaign(options: CampaignOptions): Promise<Tally> {
  const tally: Tally = { kills: 0, episodes: 0, runs: 0, by: {}, failures: [] };
  const episodes = drawEpisodes(options, tally);
  await Promise.all(Array.from({ length: options.gateways }, async () => play(episodes, options, tally)));
  return tally;
}

interface Drawn {
  readonly episode: Episode;
  /** Called with whether the first kill came before the end of the run. */
  readonly onStruck?: (struck: boolean) => void;
}

function* drawEpisodes({ kills, seed }: CampaignOptions, tally: Tally): Generator<Drawn, void, undefined> {
  const isOver = (): boolean => tally.failures.length >= MOST_FAILURES;
  const every = Math.ceil((STEPS_OF_AN_UPDATE * 2) / kills);
  for (const run of [0, 1]) {
    const ends = { lastWasStruck: true };
    for (let turn = seed; ends.lastWasStruck && !isOver(); turn += 1) {
      const strike = stepStrike((turn - seed) * every + 1 + (seed % every), turn);
      const strikes = [...Array.from({ length: run }, () => undefined), strike];
      yield {
        episode: { wish: { kind: 'update', firmware: 'good', by: 'command' }, strikes },
        onStruck: (struck) => (ends.lastWasStruck &&= struck),
      };
    }
  }
  for (let number = 0; tally.kills < kills && !isOver(); number += 1) {
    yield { episode: drawEpisode(seededRandom(seed * 1_000_003 + number)) };
  }
}

const aftermaths: readonly Aftermath[] = ['restart', 'reboot', 'power-cut'];

function stepStrike(number: number, turn: number): Strike {
  return { trigger: { kind: 'step', number }, aftermath: aftermaths[turn % 3] ?? 'restart' };
}

/** One gateway after the other, each until something is wrong with it. */
async function play(episodes: Iterator<Drawn>, options: CampaignOptions, tally: Tally): Promise<void> {
  let isOver = false;
  while (!isOver) {
    await using rig = await Rig.create();
    let isSound = true;
    while (isSound && !isOver) {
      if (options.signal?.aborted === true) return;
      const next = episodes.next();
      isOver = next.done === true;
      if (next.done !== true) isSound = await playOne(rig, next.value, tally);
      options.onEpisode?.(tally);
    }
  }
}

async function playOne(rig: Rig, { episode, onStruck }: Drawn, tally: Tally): Promise<boolean> {
  try {
    const { violations, struck, runs, resumed, story } = await playEpisode(rig, episode);
    onStruck?.(struck.length > 0);
    tally.episodes += 1;
    tally.runs += runs;
    tally.by[RESUMED] = (tally.by[RESUMED] ?? 0) + resumed;
    for (const { strike, phase } of struck) count(tally, strike, phase, episode.wish.kind);
    if (violations.length > 0) tally.failures.push({ episode, violations, story });
    return violations.length === 0;
  } catch (error) {
    const story = error instanceof Error ? (error.stack ?? '') : String(error);
    tally.failures.push({ episode, violations: ['the episode broke off'], story });
    return false;
  }
}

function count(tally: Tally, { trigger, aftermath }: Strike, phase: string, wish: string): void {
  tally.kills += 1;
  for (const name of [`at ${trigger.kind}`, `then ${aftermath}`, `in phase ${phase}`, `while ${wish}`]) {
    tally.by[name] = (tally.by[name] ?? 0) + 1;
  }
}

/** Runs, not kills. */
const RESUMED = 'went on with a transfer';

/** Minimum share of each kind of kill: a campaign proves nothing about kinds that never occurred. */
const LEAST_SHARES: Readonly<Record<string, number>> = {
  'then power-cut': 36 / 210,
  'while install': 4 / 210,
  'while rollback': 4 / 210,
  'in phase staging': 4 / 210,
  'in phase staged': 4 / 210,
  'in phase trial': 4 / 210,
};

/** Returns the kinds of kills that occurred too seldom. */
export function tooSeldom({ kills, by }: Tally): readonly string[] {
  const short = Object.entries(LEAST_SHARES).filter(([name, share]) => (by[name] ?? 0) < Math.floor(share * kills));
  return short.map(([name]) => name);
}

export function describeTally({ kills, episodes, runs, by, failures }: Tally): string {
  const parts = Object.entries(by).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const counts = parts.map(([name, number]) => `  ${String(number).padStart(6)} ${name}`);
  return [
    `${kills} kills, ${episodes} episodes, ${runs} runs of the agent, ${failures.length} failures`,
    ...counts,
  ].join('\n');
}

export function describeFailure({ episode, violations, story }: Failure): string {
  return `${violations.join('\n')}\nin ${JSON.stringify(episode)}\n${story}`;
}
