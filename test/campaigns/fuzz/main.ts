import { countOption, numberOption, runTool, WrongUse } from '../../tool.ts';
import { describeResult, fuzz } from './fuzz.ts';
import { allTargets } from './targets.ts';

const targets = await allTargets();

const help = `npm run fuzz -- [--seconds N] [--target T] [--seed S] [--at-a-time P]

Feeds what comes from outside with anything: crashes, hangs, memory beyond the bound, stack traces and changed slots are
failures. Each target runs for N seconds (60), two at a time. The same seed makes the same cases, in the same order.
Targets: ${targets.map(({ name }) => name).join(', ')}.`;

const options = {
  seconds: { type: 'string', default: '60' },
  target: { type: 'string' },
  seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  'at-a-time': { type: 'string', default: '2' },
} as const;

await runTool(help, options, async (values) => {
  const named = targets.filter(({ name }) => values.target === undefined || name === values.target);
  if (named.length === 0) throw new WrongUse(`there is no target ${values.target}`);
  const seconds = numberOption('seconds', values.seconds, 0.1);
  const seed = countOption('seed', values.seed, 0);
  const atATime = countOption('at-a-time', values['at-a-time'], 1);
  console.log(`seed ${seed}`);
  const results = await fuzz(named, {
    seconds,
    seed,
    atATime,
    onResult: (result) => console.log(describeResult(result)),
  });
  return results.every(({ failure }) => failure === undefined) ? 0 : 1;
});
