import process from 'node:process';

import { countOption, numberOption, runTool } from '../../tool.ts';
import { figures } from './measure.ts';
import type { Sample } from './measure.ts';
import { runSoak } from './soak.ts';

const help = `Simulated weeks of a gateway in one process; prints what must not grow.

usage: npm run soak -- [--weeks N] [--seed N] [--json]

  --weeks N   4, if not given
  --seed N    what happens when; drawn and printed, if not given
  --json      the whole report, with all samples
`;

const options = {
  weeks: { type: 'string', default: '4' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  json: { type: 'boolean', default: false },
} as const;

const row = (cells: readonly (string | number)[]): string => cells.map((cell) => String(cell).padStart(12)).join('');

await runTool(help, options, async (values) => {
  const [weeks, seed] = [numberOption('weeks', values.weeks, 0.1), countOption('seed', values.seed, 0)];
  const quiet = values.json;
  const onSample = (sample: Sample): void => {
    if (!quiet && sample.day % 7 === 0) console.log(row([sample.day, ...figures.map((figure) => sample[figure])]));
  };
  if (!quiet) console.log(`${weeks} weeks, seed ${seed}\n${row(['day', ...figures])}`);
  const report = await runSoak({ weeks, seed, onSample });
  if (quiet) {
    console.log(JSON.stringify(report));
    return 0;
  }
  for (const [whose, growth] of [
    ['', report.growth],
    [', of the longest life of a daemon', report.growthOfALife],
  ] as const) {
    console.log(`\nmedians of the second and the last quarter${whose}:`);
    for (const { figure, early, late } of growth) console.log(row([figure, early, late]));
  }
  console.log('\nwhat happened:');
  for (const [what, times] of Object.entries(report.counts)) console.log(`${String(times).padStart(8)}  ${what}`);
  return 0;
});
// A leaked timer would keep the process alive, unnoticed.
process.exit();
