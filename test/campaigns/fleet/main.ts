import { writeFile } from 'node:fs/promises';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { seededRandom } from '../../fakes/machine/power.ts';
import { countOption, runTool } from '../../tool.ts';
import { loseBroker } from './broker.ts';
import { isMissed } from './figures.ts';
import type { Figures } from './figures.ts';
import { playScenarios } from './play.ts';
import { playReal, renderReal } from './real.ts';
import { renderBrokers, renderTable, writePlots } from './report.ts';

const help = `A fleet in simulated time: the agent's own schedule, splay, retries and naps against services of every mood
(test/campaigns/fleet/README.md).

usage: npm run fleet -- [options]

  --things N     100000 if not given
  --seed N       1 if not given
  --only NAME    well, release, slow, down, maintained, limited, power, clock, hourly or site; may be repeated
  --real N       so many real daemons on this machine in its place, for about ten minutes; 40 MiB of memory each
  --plots DIR    where the plots go (SVG); none are made if not given
  --json FILE    the figures, for programs
`;

const options = {
  things: { type: 'string', default: '100000' },
  seed: { type: 'string', default: '1' },
  only: { type: 'string', multiple: true },
  real: { type: 'string' },
  plots: { type: 'string' },
  json: { type: 'string' },
} as const;

await runTool(help, options, async ({ things, seed, only, plots, real, json }) => {
  const keep = async (kept: unknown): Promise<void> => {
    if (json !== undefined) await writeFile(json, `${JSON.stringify(kept)}\n`);
  };
  if (real !== undefined) {
    const figures = await playReal(countOption('real', real, 1), (line) => console.error(line));
    console.log(renderReal(figures));
    await keep(figures);
    return 0;
  }
  const startedMs = performance.now();
  const size = countOption('things', things, 1);
  const seedNumber = countOption('seed', seed, 0);
  const figures: Figures[] = [];
  for (const each of playScenarios(size, seedNumber, only)) {
    console.error(`${each.name}: ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
    figures.push(each);
  }
  console.log(`${cpus().length} × ${cpus()[0]?.model}, Linux ${release()}, Node ${process.version}; seed ${seed}\n`);
  console.log(renderTable(figures));
  if (only === undefined) {
    const away = [5_000, 60_000, 3_600_000];
    console.log(renderBrokers(away.map((awayMs) => loseBroker(size, awayMs, seededRandom(seedNumber)))));
  }
  await keep(figures);
  if (plots !== undefined) await writePlots(figures, join(process.cwd(), plots));
  const missed = figures.filter(isMissed).map(({ name }) => name);
  console.log(missed.length === 0 ? 'All goals are met.' : `Missed: ${missed.join(', ')}`);
  return 0;
});
