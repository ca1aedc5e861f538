import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { memoryOf, workOf } from '../process-facts.ts';
import type { ProcessMemory, ProcessWork } from '../process-facts.ts';
import { spreadOf } from '../statistics.ts';
import { end, IdleGateway } from './idle-daemon.ts';

const CHECKS = 10;
const CHECK_EVERY_MS = 15 * 60_000;
/** V8 collects garbage for the last time in the fourth minute: the time before is not rest. */
const REST_MS = 285_000;
const WINDOW_MS = 300_000;

interface Watched {
  readonly name: string;
  readonly pid: number;
  readonly before: ProcessWork;
  readonly after: ProcessWork;
  readonly memory: ProcessMemory;
}

/**
 * Row 4: two daemons with nothing to do, one with and one without a watchdog, and a `node` with nothing to do. The window
 * is the time from minute 5 to minute 10; no scheduled check is in it.
 */
export async function idleSuite(context: BenchContext): Promise<SuiteResult> {
  const { node, quick, tell } = context;
  const [restMs, windowMs] = quick ? [3_000, 20_000] : [REST_MS, WINDOW_MS];
  await using gateway = await IdleGateway.create(context);
  await using other = await IdleGateway.create(context);
  const bare = spawn(node, ['-e', 'setInterval(() => {}, 2 ** 30)'], { stdio: 'ignore' });
  const started = [gateway.start(), other.start(false)];
  try {
    await Promise.all(started.map(async ({ idle }) => idle));
    for (const each of [gateway, other]) for (let check = 0; check < 4; check += 1) await each.command('check');
    await sleep(restMs);
    tell(`watching idle daemons for ${windowMs / 1000} s`);
    const pids = [...started.map(({ daemon }) => daemon.pid ?? NaN), bare.pid ?? NaN];
    const before = await Promise.all(pids.map(workOf));
    await sleep(windowMs);
    const [withWatchdog, without, node] = await Promise.all(
      ['daemon', 'daemon without watchdog', 'bare node'].map(async (name, index): Promise<Watched> => {
        const pid = pids[index] ?? NaN;
        const rest = before[index] ?? { cpuMs: NaN, wakeUps: NaN };
        return { name, pid, before: rest, after: await workOf(pid), memory: await memoryOf(pid) };
      }),
    );
    if (withWatchdog === undefined || without === undefined || node === undefined)
      throw new Error('nothing was watched');
    const checkMs = await costOfACheck(gateway, withWatchdog.pid);
    return {
      suite: 'idle',
      measurements: [],
      figures: [
        ...memoryFigures(withWatchdog.memory, node.memory),
        ...workFigures(withWatchdog, windowMs, { cpu: 0.1, wakeUps: 6 }),
        ...workFigures(without, windowMs, { wakeUps: 2 }),
        ...workFigures(node, windowMs),
        single(checkMs, { name: 'CPU of an update check', unit: 'ms', how: 'mean of ten, children too' }),
        single((checkMs / CHECK_EVERY_MS) * 100, { name: 'the same, every 15 minutes', unit: '%', how: 'of a core' }),
      ],
    };
  } finally {
    for (const { daemon } of started) await end(daemon);
    await end(bare);
  }
}

/** As by the schedule: recovery, reports, the question to the service. */
async function costOfACheck(gateway: IdleGateway, pid: number): Promise<number> {
  await gateway.command('--update-now'); // the first one loads what is needed
  const before = await workOf(pid);
  for (let check = 0; check < CHECKS; check += 1) await gateway.command('--update-now');
  return ((await workOf(pid)).cpuMs - before.cpuMs) / CHECKS;
}

function memoryFigures(agent: ProcessMemory, bare: ProcessMemory): readonly Figure[] {
  const figure = (name: string, of: (memory: ProcessMemory) => number, target?: number): Figure => {
    const how = `daemon ${of(agent).toFixed(1)}, bare node ${of(bare).toFixed(1)}; /proc/PID/smaps_rollup`;
    return single(of(agent) - of(bare), { name: `${name}, above a bare node`, unit: 'MiB', target, how });
  };
  return [
    figure('RSS', ({ rssMib }) => rssMib),
    figure('PSS', ({ pssMib }) => pssMib),
    figure('private dirty', ({ privateDirtyMib }) => privateDirtyMib, 18),
  ];
}

function workFigures(
  { name, before, after }: Watched,
  windowMs: number,
  targets: { readonly cpu?: number; readonly wakeUps?: number } = {},
): readonly Figure[] {
  const during = `during ${windowMs / 1000} s`;
  const [cpuMs, wakeUps] = [after.cpuMs - before.cpuMs, after.wakeUps - before.wakeUps];
  return [
    single((cpuMs / windowMs) * 100, {
      name: `${name}: CPU`,
      unit: '%',
      target: targets.cpu,
      how: `of a core, ended children too, ${during}`,
    }),
    single((wakeUps / windowMs) * 60_000, {
      name: `${name}: wake-ups`,
      unit: '/min',
      target: targets.wakeUps,
      how: `of all threads, ${during}`,
    }),
  ];
}

function single(value: number, rest: Omit<Figure, 'value'>): Figure {
  return { ...rest, value: spreadOf([value]) };
}
