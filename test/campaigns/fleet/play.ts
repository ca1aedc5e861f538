import { seededRandom } from '../../fakes/machine/power.ts';
import { WrongUse } from '../../tool.ts';
import { defaultsOfConfig } from './defaults.ts';
import { figuresOf } from './figures.ts';
import type { Figures } from './figures.ts';
import { Fleet } from './fleet.ts';
import { scenarios } from './scenarios.ts';

/** One after the other, so that only one fleet is in memory. */
export function* playScenarios(things: number, seed: number, only?: readonly string[]): Generator<Figures> {
  const all = scenarios(things, defaultsOfConfig());
  const names = all.map(({ name }) => name);
  const unknown = only?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new WrongUse(`--only is one of ${names.join(', ')}`);
  for (const scenario of all) {
    if (only?.includes(scenario.name) === false) continue;
    yield figuresOf(scenario, new Fleet(scenario, seededRandom(seed)).run());
  }
}
