import process from 'node:process';

import { setup as buildAgent } from '../../fakes/machine/built-agent.ts';
import { countOption, runTool } from '../../tool.ts';
import { describeFailure, describeTally, runCampaign, tooSeldom } from './campaign.ts';

const help = `npm run kills -- [--kills N] [--seed S] [--gateways G]

Runs the real program on loop devices and kills it, reboots the machine or cuts its power: at each step of an update, and
at random. For root. Defaults: 1000 kills, a random seed, two gateways at a time.`;

const options = {
  kills: { type: 'string', default: '1000' },
  seed: { type: 'string', default: String(Math.floor(Math.random() * 1_000_000)) },
  gateways: { type: 'string', default: '2' },
} as const;

await runTool(help, options, async (values) => {
  const kills = countOption('kills', values.kills, 1);
  const seed = countOption('seed', values.seed, 0);
  const gateways = countOption('gateways', values.gateways, 1);
  console.log(`seed ${seed}`);
  await using built = new AsyncDisposableStack();
  built.defer(await buildAgent());
  const startMs = performance.now();
  let told = 0;
  const interruption = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interruption.abort());
  const tally = await runCampaign({
    kills,
    seed,
    gateways,
    signal: interruption.signal,
    onEpisode: (soFar) => {
      if (soFar.kills < told + 100) return;
      told = soFar.kills;
      console.log(`${soFar.kills} kills, ${Math.round((performance.now() - startMs) / 1000)} s`);
    },
  });
  console.log(`${describeTally(tally)}\n${Math.round((performance.now() - startMs) / 1000)} s`);
  for (const failure of tally.failures) console.log(`\nFAILED: ${describeFailure(failure)}`);
  for (const name of tooSeldom(tally)) console.log(`\nFAILED: too few kills ${name}`);
  return tally.failures.length + tooSeldom(tally).length === 0 ? 0 : 1;
});
