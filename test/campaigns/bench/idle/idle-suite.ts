import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { memoryOf, workOf } from '../process-facts.ts';
import type { ProcessMemory, ProcessWork } from '../process-facts.ts';
import { spreadOf } from '../statistics.ts';
import { end, IdleGateway } from './idle-daemon.ts';

const LOOKS = 10;
const LOOK_EVERY_MS = 15 * 60_000;

/** Row 4: an idle daemon, compared with an idle `node`. */
export async function idleSuite(context: BenchContext): Promise<SuiteResult> {
  const { node, quick, tell } = context;
  const [restMs, windowMs] = quick ? [3_000, 20_000] : [10_000, 180_000];
  await using gateway = await IdleGateway.create(context);
  const bare = spawn(node, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
  const { daemon, idle } = gateway.start();
  try {
    await idle;
    await sleep(restMs);
    tell(`watching the idle daemon for ${windowMs / 1000} s`);
    const pids = [daemon.pid ?? NaN, bare.pid ?? NaN] as const;
    const before = await Promise.all(pids.map(workOf));
    await sleep(windowMs);
    const after = await Promise.all(pids.map(workOf));
    const memory = await Promise.all(pids.map(memoryOf));
    const lookMs = await costOfALook(gateway, pids[0]);
    const [agentWork, bareWork] = after.map((now, index) => workBetween(before[index], now));
    return {
      suite: 'idle',
      measurements: [],
      figures: [
        ...memoryFigures(memory[0], memory[1]),
        ...workFigures('daemon', agentWork, windowMs, 0.1),
        ...workFigures('bare node', bareWork, windowMs),
        single(lookMs, { name: 'CPU of one look at the service', unit: 'ms', how: 'mean of ten `agent check`' }),
        single((lookMs / LOOK_EVERY_MS) * 100, { name: 'the same, every 15 minutes', unit: '%', how: 'of a core' }),
      ],
    };
  } finally {
    await end(daemon);
    await end(bare);
  }
}

async function costOfALook(gateway: IdleGateway, pid: number): Promise<number> {
  await gateway.command('check'); // the first one loads what is needed
  const before = await workOf(pid);
  for (let look = 0; look < LOOKS; look += 1) await gateway.command('check');
  return ((await workOf(pid)).cpuMs - before.cpuMs) / LOOKS;
}

function workBetween(before: ProcessWork | undefined, after: ProcessWork): ProcessWork {
  return { cpuMs: after.cpuMs - (before?.cpuMs ?? NaN), wakeUps: after.wakeUps - (before?.wakeUps ?? NaN) };
}

function memoryFigures(agent: ProcessMemory | undefined, bare: ProcessMemory | undefined): readonly Figure[] {
  const figure = (name: string, of: (memory: ProcessMemory) => number, target?: number): readonly Figure[] => {
    const [ours, theirs] = [agent, bare].map((memory) => (memory === undefined ? NaN : of(memory)));
    const how = `daemon ${ours?.toFixed(1)}, bare node ${theirs?.toFixed(1)}; /proc/PID/smaps_rollup`;
    const difference = (ours ?? NaN) - (theirs ?? NaN);
    return [single(difference, { name: `${name}, above a bare node`, unit: 'MiB', target, how })];
  };
  return [
    ...figure('RSS', ({ rssMib }) => rssMib, 25),
    ...figure('PSS', ({ pssMib }) => pssMib),
    ...figure('private dirty', ({ privateDirtyMib }) => privateDirtyMib),
  ];
}

function workFigures(
  name: string,
  { cpuMs, wakeUps }: ProcessWork = { cpuMs: NaN, wakeUps: NaN },
  windowMs: number,
  target?: number,
): readonly Figure[] {
  const during = `during ${windowMs / 1000} s`;
  return [
    single((cpuMs / windowMs) * 100, {
      name: `${name}: CPU`,
      unit: '%',
      target,
      how: `of a core, ended children too, ${during}`,
    }),
    single((wakeUps / windowMs) * 60_000, {
      name: `${name}: wake-ups`,
      unit: '/min',
      how: `of all threads, ${during}`,
    }),
  ];
}

function single(value: number, rest: Omit<Figure, 'value'>): Figure {
  return { ...rest, value: spreadOf([value]) };
}
