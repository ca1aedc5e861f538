import { createHash } from 'node:crypto';

import { seededRandom } from '../../fakes/machine/power.ts';
import { faultKinds } from './faults.ts';
import type { Fault, FaultCounts, FaultKind } from './faults.ts';
import type { Case, Cut } from './life.ts';
import type { Played } from './play.ts';
import type { Stage } from './stage.ts';

/** A unit of work of one worker. */
export type Task =
  /** One cut, after each durable change: the power with several memories of the disk, and a kill. */
  | { readonly kind: 'cuts'; readonly scenario: string }
  /** This first power loss, and a second one after each later durable change. It represents several first ones. */
  | { readonly kind: 'pairs'; readonly scenario: string; readonly first: number; readonly standsFor: number }
  /** One kind of fault at each place, once and several times in a row; every other time with a cut. */
  | { readonly kind: 'faults'; readonly scenario: string; readonly fault: FaultKind }
  /** Up to six cuts and two faults. */
  | { readonly kind: 'random'; readonly scenarios: readonly string[]; readonly from: number; readonly count: number };

export interface TaskResult {
  readonly kind: Task['kind'];
  readonly cases: Readonly<Record<string, number>>;
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly given: Case;
  readonly violation: string;
}

const DISK_MEMORIES = 2;
/** Numbers of consecutive faults, and their positions: the disk has many. */
const FAULT_LENGTHS = { times: [1, 5], step: 1 };
const lengthsOf: Partial<Record<FaultKind, typeof FAULT_LENGTHS>> = {
  'disk-full': { times: [6], step: 3 },
  'disk-error': { times: [1], step: 1 },
  'request-lost': { times: [1, 5, 20], step: 1 }, // the last is an outage longer than a trial
};
const MAX_CUTS = 6;
/** Shrunk and kept of one task. */
const MAX_FAILURES = 3;

/** One task, played: counts its cases and keeps the first that break a promise. */
export class TaskRun {
  readonly #stage: Stage;
  readonly #seed: number;
  #every: number;
  readonly #cases = new Map<string, number>();
  readonly #failures: Failure[] = [];
  #offered = 0;

  /** Plays every nth case. */
  constructor(stage: Stage, seed: number, every: number) {
    this.#stage = stage;
    this.#seed = seed;
    this.#every = every;
  }

  async run(task: Task): Promise<TaskResult> {
    // else a task with fewer cases than that would never have any played
    this.#offered = nameNumber(JSON.stringify(task)) % this.#every;
    switch (task.kind) {
      case 'cuts':
        await this.#cuts(task.scenario);
        break;
      case 'pairs':
        this.#every = Math.ceil(this.#every / task.standsFor);
        await this.#pairs(task.scenario, task.first);
        break;
      case 'faults':
        await this.#faults(task.scenario, task.fault);
        break;
      case 'random':
        await this.#random(task.scenarios, task.from, task.count);
        break;
    }
    return { kind: task.kind, cases: Object.fromEntries(this.#cases), failures: this.#failures };
  }

  async #cuts(scenario: string): Promise<void> {
    const { steps } = await this.#rehearsal(scenario);
    for (let after = 1; after <= steps.length; after += 1) {
      for (let memory = 0; memory < DISK_MEMORIES; memory += 1) {
        await this.#offer({ scenario, seed: this.#seed + memory, cuts: [{ kind: 'power', after }], faults: [] });
      }
      await this.#offer({ scenario, seed: this.#seed, cuts: [{ kind: 'kill', after }], faults: [] });
    }
  }

  async #pairs(scenario: string, first: number): Promise<void> {
    const one: Case = { scenario, seed: this.#seed + first, cuts: [{ kind: 'power', after: first }], faults: [] };
    const goOn = await this.#stage.cutOnce(one);
    if (goOn === undefined) return this.#offer(one);
    const { steps } = await goOn(one);
    for (let after = 1; after <= steps.length; after += 1) {
      const two = { ...one, cuts: [...one.cuts, { kind: 'power', after } as const] };
      await this.#offer(two, goOn);
    }
  }

  async #faults(scenario: string, kind: FaultKind): Promise<void> {
    const { steps, faultChances } = await this.#rehearsal(scenario);
    const random = seededRandom(this.#seed);
    const lengths = lengthsOf[kind] ?? FAULT_LENGTHS;
    for (let at = 1; at <= (faultChances[kind] ?? 0) + 1; at += lengths.step) {
      for (const times of lengths.times) {
        const after = 1 + Math.floor(random() * steps.length);
        const cuts = at % 2 === 0 ? [{ kind: 'power', after } as const] : [];
        await this.#offer({ scenario, seed: this.#seed + at, cuts, faults: [{ kind, at, times }] });
      }
    }
  }

  async #random(scenarios: readonly string[], from: number, count: number): Promise<void> {
    for (let number = from; number < from + count; number += 1) {
      const random = seededRandom(this.#seed ^ Math.imul(number, 0x9e37_79b1));
      const scenario = scenarios[Math.floor(random() * scenarios.length)] ?? '';
      const { steps, faultChances } = await this.#rehearsal(scenario);
      const cuts = randomCuts(steps.length, random);
      const faults = randomFaults(faultChances, random);
      await this.#offer({ scenario, seed: Math.floor(random() * 0x1_0000_0000), cuts, faults });
    }
  }

  async #rehearsal(scenario: string): Promise<Played> {
    const known = rehearsals.get(this.#stage)?.get(scenario);
    if (known !== undefined) return known;
    const played = await this.#stage.rehearse(scenario);
    const all = rehearsals.get(this.#stage) ?? new Map<string, Played>();
    rehearsals.set(this.#stage, all.set(scenario, played));
    return played;
  }

  async #offer(given: Case, playCase = (each: Case) => this.#stage.play(each)): Promise<void> {
    this.#offered += 1;
    if (this.#offered % this.#every !== 0) return;
    this.#cases.set(given.scenario, (this.#cases.get(given.scenario) ?? 0) + 1);
    const { violation } = await playCase(given);
    if (violation === undefined || this.#failures.length >= MAX_FAILURES) return;
    const small = await this.#stage.shrink(given);
    this.#failures.push({ given: small, violation: (await this.#stage.play(small)).violation ?? violation });
  }
}

/** The same at each run. */
function nameNumber(name: string): number {
  return createHash('sha256').update(name).digest().readUInt32BE();
}

const rehearsals = new WeakMap<Stage, Map<string, Played>>();

function randomCuts(steps: number, random: () => number): readonly Cut[] {
  const count = 1 + Math.floor(random() * MAX_CUTS);
  return Array.from({ length: count }, (_, index) => ({
    kind: random() < 0.75 ? 'power' : 'kill',
    after: 1 + Math.floor((index === 0 ? random() : random() * random()) * steps),
  }));
}

/** Half of the time none. */
function randomFaults(chances: FaultCounts, random: () => number): readonly Fault[] {
  const count = Math.max(0, Math.floor(random() * 4) - 1);
  return Array.from({ length: count }, () => {
    const kind = faultKinds[Math.floor(random() * faultKinds.length)] ?? 'request-lost';
    const at = 1 + Math.floor(random() * (chances[kind] ?? 1) * 1.5);
    // a package is left as it is after ten restores that failed, at two installations each
    const longest = kind === 'dpkg-failed' ? 5 : 20;
    return { kind, at, times: Math.min(longest, [1, 1, 2, 5, 20][Math.floor(random() * 5)] ?? 1) };
  });
}
