import process from 'node:process';
import { parseArgs } from 'node:util';

import { describeResult, fuzz } from './fuzz.ts';
import { findTarget, targets } from './targets.ts';

const help = `npm run fuzz -- [--seconds N] [--target T] [--seed S] [--at-a-time P]

Feeds what comes from outside with anything: crashes, hangs, memory beyond the bound, stack traces and changed slots are
failures. Each target runs for N seconds (60), two at a time. The same seed makes the same cases, in the same order.
Targets: ${targets.map(({ name }) => name).join(', ')}.`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    target: { type: 'string' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    'at-a-time': { type: 'string', default: '2' },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<number> {
  if (values.help) {
    console.log(help);
    return 0;
  }
  const chosen = values.target === undefined ? targets : [findTarget(values.target)];
  console.log(`seed ${values.seed}`);
  const results = await fuzz(chosen, {
    seconds: Number(values.seconds),
    seed: Number(values.seed),
    atATime: Number(values['at-a-time']),
    onResult: (result) => console.log(describeResult(result)),
  });
  return results.every(({ failure }) => failure === undefined) ? 0 : 1;
}

process.exitCode = await main();
