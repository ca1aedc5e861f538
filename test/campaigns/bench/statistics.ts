export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
}

/** Ignores failed runs (NaN). All NaN without a result. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const median = ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
  return { median, min: sorted[0] ?? NaN, max: sorted.at(-1) ?? NaN, count: sorted.length };
}

/** Compares values measured in the same round: changing load affects both of a pair. */
export function ratioOf(values: readonly number[], against: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (against[round] ?? NaN)));
}

export interface Contender<T> {
  readonly name: string;
  readonly run: () => Promise<T>;
}

/** Every contender once a round, each round beginning with another one. */
export async function inRounds<T>(
  contenders: readonly Contender<T>[],
  rounds: number,
  tell: (line: string) => void,
): Promise<ReadonlyMap<string, readonly T[]>> {
  const results = new Map<string, T[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < contenders.length; turn += 1) {
      const contender = contenders[(round + turn) % contenders.length];
      if (contender === undefined) continue;
      tell(`round ${round + 1} of ${rounds}: ${contender.name}`);
      results.get(contender.name)?.push(await contender.run());
    }
  }
  return results;
}
