import { seededRandom } from '../../fakes/machine/power.ts';
import { bootCut } from './boot-cut.ts';
import type { BootedCut } from './boot-cut.ts';
import { drawCut } from './disk/cut.ts';
import type { Cut } from './disk/cut.ts';
import type { Recording } from './disk/recording.ts';
import { Judge } from './judge.ts';
import type { Judgement } from './judge.ts';
import type { Machines } from './record.ts';
import type { Scene } from './scenes.ts';

/** Number of results of each kind that are kept as examples. */
const MOST_EXAMPLES = 5;

/** Results of the interruptions of one recording. */
export interface JudgedCuts {
  readonly cuts: number;
  /** Starts of GRUB that it took. */
  readonly starts: number;
  readonly seconds: number;
  /** GRUB could not read something of its own: no violation, if it starts the right slot all the same. */
  readonly complaints: number;
  /** Number of cases by phase, lost data, and the slot that would start. */
  readonly classes: Readonly<Record<string, number>>;
  readonly violations: Readonly<Record<string, number>>;
  readonly examples: readonly Judgement[];
  /** One cut of each class, of the rarest first, for those who boot them. */
  readonly representatives: readonly Cut[];
}

export interface JudgeOptions {
  readonly cuts: number;
  readonly seed: number;
}

export async function judgeCuts(recording: Recording, { cuts, seed }: JudgeOptions): Promise<JudgedCuts> {
  const startMs = performance.now();
  const drawn = Array.from({ length: cuts }, (_, number) => drawCut(recording, seed * 1_000_003 + number));
  drawn.sort((one, other) => one.event - other.event);
  const classes = new Map<string, Cut[]>();
  const violations: Record<string, number> = {};
  const examples: Judgement[] = [];
  let complaints = 0;
  using judge = new Judge(recording);
  for (const cut of drawn) {
    const judgement = await judge.judge(cut);
    if (judgement.complaint !== undefined) complaints += 1;
    const name = className(judgement);
    const members = classes.get(name) ?? [];
    members.push(cut);
    classes.set(name, members);
    for (const violation of judgement.violations) {
      violations[violation] = (violations[violation] ?? 0) + 1;
      if ((violations[violation] ?? 0) <= MOST_EXAMPLES) examples.push(judgement);
    }
  }
  const random = seededRandom(seed);
  return {
    cuts,
    starts: judge.starts,
    seconds: (performance.now() - startMs) / 1000,
    complaints,
    classes: Object.fromEntries(
      [...classes]
        .map(([name, members]) => [name, members.length] as const)
        .toSorted(([one], [other]) => (one < other ? -1 : 1)),
    ),
    violations,
    examples,
    representatives: [...classes.values()]
      .toSorted((one, other) => one.length - other.length)
      .flatMap((members) => members.at(Math.floor(random() * members.length)) ?? []),
  };
}

function className({ phase, cut, starts, holds, board, violations }: Judgement): string {
  const end = violations.length > 0 ? violations.join(' and ') : `starts ${starts[0]} with ${holds.join('/')}`;
  return `${phase}, ${cut.loss} lost: ${end}${board === undefined ? '' : `, board with ${board}`}`;
}

export interface BootsOptions extends Machines {
  readonly boots: number;
  readonly seed: number;
  readonly deadlineMs: number;
  readonly onBooted?: (booted: BootedCut) => void;
  readonly onLine?: (line: string) => void;
}

/** Starts cuts until they have come to rest: first one of each class, the rarest first, then at random. */
export async function bootCuts(
  recording: Recording,
  scene: Scene,
  judged: JudgedCuts,
  { boots, seed, onBooted, ...options }: BootsOptions,
): Promise<readonly BootedCut[]> {
  const pool = [...judged.representatives];
  const done: BootedCut[] = [];
  while (done.length < boots) {
    const cut = pool.shift() ?? drawCut(recording, seed * 1_000_003 + judged.cuts + done.length);
    const booted = await bootCut(recording, cut, { ...options, ends: scene.ends });
    done.push(booted);
    onBooted?.(booted);
  }
  return done;
}

export function describeJudged({
  cuts,
  starts,
  seconds,
  complaints,
  classes,
  violations,
  examples,
}: JudgedCuts): string {
  const lines = [
    `${cuts} cuts judged in ${seconds.toFixed(1)} s (${((seconds * 1000) / Math.max(cuts, 1)).toFixed(2)} ms each), ` +
      `${starts} starts of GRUB, which could not read its environment or a file in ${complaints}`,
    ...Object.entries(classes).map(([name, count]) => `  ${String(count).padStart(7)} ${name}`),
    ...Object.entries(violations).map(([name, count]) => `  VIOLATED ${String(count).padStart(7)} times: ${name}`),
    ...examples.map(
      ({ cut, violations: found, starts: order, complaint }) =>
        `    seed ${cut.seed}, event ${cut.event}, ${cut.loss} lost: ${found.join(' and ')} ` +
        `(GRUB would start ${order.join(', ')}; ${complaint ?? 'no complaint'})`,
    ),
  ];
  return lines.join('\n');
}

export function describeBooted(booted: BootedCut): string {
  const { cut, boots, restSeconds, nextSeconds, processorSeconds, violations, story } = booted;
  const used = processorSeconds === 0 ? '' : `, ${processorSeconds} s of a processor`;
  const times = `at rest after ${restSeconds ?? '?'} s, on the next version ${nextSeconds ?? '?'} s later${used}`;
  const how = `seed ${cut.seed}, event ${cut.event}, ${cut.loss} lost: booted ${boots.join(', ')}, ${times}`;
  return violations.length === 0 ? how : `${how}\nVIOLATED: ${violations.join('; ')}\n${story}`;
}
