import { randomInt } from 'node:crypto';

import { countOption, runTool, WrongUse } from '../../tool.ts';
import { Crew } from './crew.ts';
import { faultKinds } from './faults.ts';
import { buildCatalog } from './gateway/catalog.ts';
import type { CatalogData } from './gateway/catalog.ts';
import type { Case } from './life.ts';
import { scenarios } from './scenarios.ts';
import { Stage } from './stage.ts';
import type { Failure, Task, TaskResult } from './tasks.ts';

/** Scenarios with every pair of interruptions, and with every fault of a kind: GRUB counts as U-Boot does. */
const PAIRED = /^(?:uboot|tryboot|handler)\/(?:good|bad)$|^(?:uboot|tryboot)\/(?:first|flap|file-bad)$/;
const FAULTY = { disk: /^(?:uboot|handler)/, other: /^(?:uboot|tryboot|handler)/ };
const RANDOM_CHUNK = 200;
/** Share of systematic cases if not every case is played; the others are random. */
const SYSTEMATIC = 2 / 3;
/**
 * If few of the pairs are played, this number of first interruptions share one, which is then played once instead of
 * for each of them.
 */
const SHARED_FIRST_CUTS = 12;
const MAX_SHOWN = 12;
const MAX_VIOLATION_CHARACTERS = 1_000;
const PROGRESS_MS = 60_000;

const help = `Power cuts after every step of every history of an update, in memory; see test/campaigns/results.md.

usage: npm run sweep -- [--cases N] [--seed N] [--scenario PART] [--replay CASE]

  --cases N        at least so many; 100000 if not given
  --seed N         drawn and printed, if not given
  --scenario PART  only those whose name has this in it, e.g. uboot/both
  --replay CASE    one case, as a failure prints it
`;

const options = {
  cases: { type: 'string', default: '100000' },
  seed: { type: 'string', default: String(randomInt(1_000_000)) },
  scenario: { type: 'string', default: '' },
  replay: { type: 'string' },
} as const;

function caseIn(text: string): Case {
  const wrong = '--replay is a case as a failure prints it';
  try {
    const given = JSON.parse(text) as Case | null;
    if (given !== null && scenarios.some(({ name }) => name === given.scenario)) return given;
  } catch (error) {
    throw new WrongUse(wrong, { cause: error });
  }
  throw new WrongUse(wrong);
}

async function replay(given: Case, data: CatalogData): Promise<number> {
  const { steps, ends, last, violation } = await new Stage(data).play(given);
  console.log(`after the last cut: ${steps.join('\n  ')}\nends: ${ends.join(', ')}\nlast look: ${last}`);
  console.log(violation ?? 'no promise is broken');
  return violation === undefined ? 0 : 1;
}

class Sweep {
  readonly #names: readonly string[];
  readonly #seed: number;
  readonly #data: CatalogData;
  readonly #counts = new Map<string, number>();
  readonly #kinds = new Map<string, number>();
  readonly #failureKinds = new Set<string>();
  #failureCount = 0;
  #saidAtMs = performance.now();

  constructor(names: readonly string[], seed: number, data: CatalogData) {
    this.#names = names;
    this.#seed = seed;
    this.#data = data;
  }

  get #total(): number {
    return sum(this.#kinds.values());
  }

  get #verdict(): string {
    return this.#failureCount === 0 ? 'no promise is broken' : `${this.#failureCount} broken promises`;
  }

  async run(cases: number): Promise<number> {
    const startMs = performance.now();
    console.log(`seed ${this.#seed}`);
    const everything = await this.#exhaustive();
    const share = sum(everything.map(({ estimate }) => estimate)) / cases;
    const every = share <= 1 ? 1 : Math.ceil(share / SYSTEMATIC);
    const standsFor = Math.min(every, SHARED_FIRST_CUTS);
    await using crew = new Crew({ catalog: this.#data, seed: this.#seed });
    const onResult = (result: TaskResult): void => this.#note(result);
    await crew.run(
      everything.flatMap(({ task }): readonly Task[] => {
        if (task.kind !== 'pairs') return [task];
        return task.first % standsFor === this.#seed % standsFor ? [{ ...task, standsFor }] : [];
      }),
      every,
      onResult,
    );
    await crew.run(this.#randomTasks(cases - this.#total), 1, onResult);
    this.#print((performance.now() - startMs) / 1000);
    return this.#failureCount === 0 ? 0 : 1;
  }

  /** Every case that is worth being played once, with how many each task is about. */
  async #exhaustive(): Promise<
    readonly { readonly task: Exclude<Task, { kind: 'random' }>; readonly estimate: number }[]
  > {
    const stage = new Stage(this.#data);
    const found = [];
    for (const scenario of this.#names) {
      const { steps, faultChances, violation } = await stage.rehearse(scenario);
      if (violation !== undefined) this.#fail({ given: { scenario, seed: 1, cuts: [], faults: [] }, violation });
      const count = steps.length;
      found.push({ task: { kind: 'cuts', scenario } as const, estimate: count * 3 });
      for (const fault of faultKinds) {
        const isOfDisk = fault.startsWith('disk');
        if (!FAULTY[isOfDisk ? 'disk' : 'other'].test(scenario)) continue;
        const estimate = ((faultChances[fault] ?? 0) + 1) * (isOfDisk ? 0.7 : 2);
        found.push({ task: { kind: 'faults', scenario, fault } as const, estimate });
      }
      if (!PAIRED.test(scenario)) continue;
      for (let first = 1; first <= count; first += 1) {
        found.push({ task: { kind: 'pairs', scenario, first, standsFor: 1 } as const, estimate: count * 0.7 });
      }
    }
    return found;
  }

  #randomTasks(count: number): readonly Task[] {
    const tasks: Task[] = [];
    for (let from = 0; from < count; from += RANDOM_CHUNK) {
      tasks.push({ kind: 'random', scenarios: this.#names, from, count: Math.min(RANDOM_CHUNK, count - from) });
    }
    return tasks;
  }

  #note({ kind, cases, failures }: TaskResult): void {
    for (const [scenario, count] of Object.entries(cases)) {
      this.#counts.set(scenario, (this.#counts.get(scenario) ?? 0) + count);
      this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + count);
    }
    for (const failure of failures) this.#fail(failure);
    this.#sayHowFar();
  }

  /** Shows the first of each kind: what differs in numbers and texts alone is the same. */
  #fail({ given, violation }: Failure): void {
    this.#failureCount += 1;
    const kind = violation.replaceAll(/[\d"{][^ ]*/g, '#').slice(0, 80);
    if (this.#failureKinds.has(kind) || this.#failureKinds.size >= MAX_SHOWN) return;
    this.#failureKinds.add(kind);
    console.log(`\n${given.scenario}: ${printable(violation)}\n  npm run sweep -- --replay '${JSON.stringify(given)}'`);
  }

  /** Reports progress of a long sweep that has to end early. */
  #sayHowFar(): void {
    if (performance.now() - this.#saidAtMs < PROGRESS_MS) return;
    this.#saidAtMs = performance.now();
    console.log(`${this.#total} cases so far: ${this.#verdict}`);
  }

  #print(seconds: number): void {
    for (const name of this.#names) console.log(`${String(this.#counts.get(name) ?? 0).padStart(8)}  ${name}`);
    const kinds = [...this.#kinds].map(([kind, count]) => `${kind} ${count}`).join(', ');
    console.log(`${this.#total} cases (${kinds}) in ${seconds.toFixed(1)} s, seed ${this.#seed}`);
    console.log(this.#verdict);
  }
}

/** Images may hold zeros. */
function printable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e\n]/g, '?').slice(0, MAX_VIOLATION_CHARACTERS);
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, each) => total + each, 0);
}

/** The crash sweep: see test/campaigns/results.md. Prints what it played, and each case that broke a promise. */
await runTool(help, options, async (values) => {
  const [cases, seed] = [countOption('cases', values.cases, 1), countOption('seed', values.seed, 0)];
  const data = await buildCatalog();
  if (values.replay !== undefined) return replay(caseIn(values.replay), data);
  const names = scenarios.map(({ name }) => name).filter((name) => name.includes(values.scenario));
  if (names.length === 0) throw new WrongUse(`no scenario is called ${values.scenario}`);
  return new Sweep(names, seed, data).run(cases);
});
