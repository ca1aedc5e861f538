import type { Episode, Wish } from './episode.ts';
import type { Aftermath, Strike, Trigger } from './strike.ts';

/** 0 ≤ random() < 1 */
type Random = () => number;

const wishes: readonly (readonly [weight: number, Wish])[] = [
  [10, { kind: 'update', firmware: 'good', by: 'command' }],
  [12, { kind: 'update', firmware: 'good', by: 'command', isLineCut: true }],
  [22, { kind: 'update', firmware: 'good', by: 'daemon' }],
  [8, { kind: 'update', firmware: 'delta', by: 'command', isLineCut: true }],
  [8, { kind: 'update', firmware: 'delta', by: 'daemon' }],
  [6, { kind: 'update', firmware: 'unhealthy', by: 'command' }],
  [6, { kind: 'update', firmware: 'unhealthy', by: 'daemon' }],
  [5, { kind: 'update', firmware: 'dead', by: 'command' }],
  [5, { kind: 'update', firmware: 'dead', by: 'daemon' }],
  [4, { kind: 'update', firmware: 'tampered', by: 'command' }],
  [12, { kind: 'install', firmware: 'good' }],
  [4, { kind: 'install', firmware: 'foreign' }],
  [10, { kind: 'rollback' }],
  [6, { kind: 'activate' }],
];

const MOST_STRIKES = 4;
/** Longest run on a busy machine; most end earlier. */
const LONGEST_RUN_MS = 900;
const STEPS_OF_A_RUN = 55;
const JOURNAL_CHANGES_OF_A_RUN = 5;
const BOOT_CHANGES_OF_A_RUN = 4;

export function drawEpisode(random: Random): Episode {
  const strikes = Array.from({ length: 1 + below(random, MOST_STRIKES) }, () => drawStrike(random));
  // A run without a strike first, so that the later ones are struck on their own, too.
  const first = random() < 0.3 ? [undefined] : [];
  return { wish: pick(random, wishes), strikes: [...first, ...strikes] };
}

function drawStrike(random: Random): Strike {
  const trigger = pick(random, [
    [35, (): Trigger => ({ kind: 'step', number: 1 + below(random, STEPS_OF_A_RUN) })],
    [25, (): Trigger => ({ kind: 'journal', change: 1 + below(random, JOURNAL_CHANGES_OF_A_RUN) })],
    [15, (): Trigger => ({ kind: 'boot', change: 1 + below(random, BOOT_CHANGES_OF_A_RUN) })],
    [25, (): Trigger => ({ kind: 'moment', afterMs: below(random, LONGEST_RUN_MS) })],
  ] as const)();
  return { trigger, aftermath: pick(random, aftermaths) };
}

const aftermaths: readonly (readonly [weight: number, Aftermath])[] = [
  [4, 'restart'],
  [3, 'reboot'],
  [3, 'power-cut'],
];

function below(random: Random, limit: number): number {
  return Math.floor(random() * limit);
}

function pick<T>(random: Random, choices: readonly (readonly [weight: number, T])[]): T {
  let left = random() * choices.reduce((sum, [weight]) => sum + weight, 0);
  for (const [weight, choice] of choices) {
    left -= weight;
    if (left < 0) return choice;
  }
  throw new Error('there is nothing to choose');
}
