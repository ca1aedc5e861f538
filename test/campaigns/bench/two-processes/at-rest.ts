import type { Figure } from '../figures.ts';
import { end } from '../idle/idle-daemon.ts';
import type { IdleGateway } from '../idle/idle-daemon.ts';
import { timeToReady } from '../idle/start-suite.ts';
import { memoryOf } from '../process-facts.ts';
import type { ProcessMemory } from '../process-facts.ts';
import { inRounds, ratioOf, spreadOf } from '../statistics.ts';

export interface Forms {
  readonly one: IdleGateway;
  readonly two: IdleGateway;
}

/** The daemon of either form after its first look, when the helper has ended, which it does by itself. */
export async function memoryFigures({ one, two }: Forms): Promise<readonly Figure[]> {
  const daemons = [one, two].map((gateway) => gateway.start());
  try {
    await Promise.all(daemons.map(async ({ idle }) => idle));
    await two.helper?.helperEnded();
    const [alone, apart] = await Promise.all(daemons.map(async ({ daemon }) => memoryOf(daemon.pid ?? NaN)));
    if (alone === undefined || apart === undefined) throw new Error('two daemons run');
    const figure = (what: string, of: (memory: ProcessMemory) => number): Figure => ({
      name: `${what} at rest, two / one`,
      unit: '×',
      value: ratioOf([of(apart)], [of(alone)]),
      target: 1,
      how: `${of(apart).toFixed(1)} and ${of(alone).toFixed(1)} MiB, after the first look; the helper has ended`,
    });
    return [
      figure('RSS', ({ rssMib }) => rssMib),
      figure('private dirty memory', ({ privateDirtyMib }) => privateDirtyMib),
    ];
  } finally {
    await Promise.all(daemons.map(async ({ daemon }) => end(daemon)));
  }
}

/** Start to READY. The helper runs in neither form before. */
export async function startFigures({ one, two }: Forms, rounds: number): Promise<readonly Figure[]> {
  const contender = (name: string, gateway: IdleGateway) => ({ name, run: async () => timeToReady(gateway) });
  const contenders = [contender('one process', one), contender('two processes', two)];
  for (const { run } of contenders) await run(); // fills the caches
  const times = await inRounds(contenders, rounds, () => {});
  const [alone = [], apart = []] = [...times.values()];
  const how = 'wall time; with the start of the helper';
  return [
    { name: 'start to READY, one process', unit: 'ms', value: spreadOf(alone), how: 'wall time' },
    { name: 'start to READY, two processes', unit: 'ms', value: spreadOf(apart), how },
    { name: 'start to READY, two / one', unit: '×', value: ratioOf(apart, alone), how: 'pairs' },
  ];
}
