import { spawn } from 'node:child_process';
import { once } from 'node:events';

import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { inRounds, ratioOf, spreadOf } from '../statistics.ts';
import { end, IdleGateway } from './idle-daemon.ts';

const ROUNDS = { quick: 10, usual: 30 };

/** Row 5: how long a start takes, with warm caches. */
export async function startSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, program, node, quick } = context;
  await using gateway = await IdleGateway.create(context);
  const env = { ...process.env, CACHE_DIRECTORY: workFolder, NODE_COMPILE_CACHE: workFolder };
  const contenders = [
    { name: 'node -e 0', run: async () => timeOf([node, '-e', '0'], env) },
    { name: 'agent --version', run: async () => timeOf([program, '--version'], env) },
    { name: 'READY=1', run: async () => timeToReady(gateway) },
    { name: 'agent status', run: async () => timeOfCommand(gateway, 'status') },
  ];
  for (const { run } of contenders) await run(); // fills the caches
  const times = await inRounds(contenders, quick ? ROUNDS.quick : ROUNDS.usual, () => {});
  const [bare = [], version = [], ready = [], status = []] = contenders.map(({ name }) => times.get(name));
  const milliseconds = contenders.map(({ name }): Figure => {
    return { name, unit: 'ms', value: spreadOf(times.get(name) ?? []), how: 'wall time' };
  });
  const pairs = 'pairs of the same round';
  return {
    suite: 'start',
    measurements: [],
    figures: [
      ...milliseconds,
      { name: 'agent --version / node -e 0', unit: '×', value: ratioOf(version, bare), target: 2, how: pairs },
      { name: 'start to READY / node -e 0', unit: '×', value: ratioOf(ready, bare), target: 5.5, how: pairs },
      { name: 'agent status without a daemon / node -e 0', unit: '×', value: ratioOf(status, bare), how: pairs },
    ],
  };
}

async function timeOf([file, ...args]: readonly [string, ...string[]], env: NodeJS.ProcessEnv): Promise<number> {
  const before = performance.now();
  const child = spawn(file, args, { stdio: 'ignore', env });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}: exit ${code}`);
  return performance.now() - before;
}

async function timeOfCommand(gateway: IdleGateway, name: string): Promise<number> {
  const before = performance.now();
  await gateway.command(name);
  return performance.now() - before;
}

/** Until systemd would have read the message. */
export async function timeToReady(gateway: IdleGateway, argv?: readonly string[]): Promise<number> {
  const before = performance.now();
  const { daemon, ready, idle } = gateway.start(true, argv);
  await ready;
  const time = performance.now() - before;
  await idle;
  await end(daemon);
  return time;
}
