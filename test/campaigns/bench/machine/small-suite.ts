import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { LoopDevice } from '../../../unit-and-integration/slots/loop-device.ts';
import { installByAgent } from '../bench-agent.ts';
import type { BenchContext } from '../context.ts';
import { measurementsOf } from '../figures.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { writeRandomImage, writeText } from '../firmware-files.ts';
import { IdleGateway } from '../idle/idle-daemon.ts';
import { timeToReady } from '../idle/start-suite.ts';
import { measure } from '../measure.ts';
import type { Cost } from '../measure.ts';
import { ServiceProcess } from '../service-process.ts';
import { inRounds, ratioOf, spreadOf } from '../statistics.ts';
import { onSmallerMachine } from './smaller-machine.ts';
import type { SmallerMachine } from './smaller-machine.ts';

const IMAGE_BYTES = 64 * 2 ** 20;

const machines: Readonly<Record<string, SmallerMachine>> = {
  '2 cores': { cores: 2 },
  '1 core': { cores: 1 },
  '1 core, 128 MiB': { cores: 1, memoryMib: 128 },
  '1 core, 96 MiB': { cores: 1, memoryMib: 96 },
  '1 core, 64 MiB': { cores: 1, memoryMib: 64 },
};

/** A check, a status, an update of 64 MiB and a start to READY on machines with fewer cores and less memory. */
export async function smallSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, program, node, rounds, tell } = context;
  await using device = await LoopDevice.attach(IMAGE_BYTES);
  const image = await writeRandomImage(join(workFolder, 'image'), IMAGE_BYTES);
  const texts = { v1: await writeText(join(workFolder, 'image.json'), image.path) };
  await using service = await ServiceProcess.start({ texts, nginxFolder: workFolder });
  await using gateway = await IdleGateway.create(context);
  const costs = new Map<string, readonly Cost[]>();
  const figures: Figure[] = [];
  for (const [machine, on] of Object.entries(machines)) {
    const { env } = gateway;
    const command = (...args: readonly string[]) => ({
      name: `${machine}: agent ${args.join(' ')}`,
      run: async () => measure({ argv: [program, '--config', gateway.configFile, ...args], env, on }, workFolder),
    });
    const rig = { workFolder, program, device: device.path, on };
    const update = { name: `${machine}: update of 64 MiB`, run: async () => installByAgent(rig, service) };
    const found = await inRounds([command('status'), command('check'), update], rounds, tell);
    for (const [name, all] of found) costs.set(name, all);
    const starts = [
      { name: 'bare', run: async () => timeOfBare([node, '-e', '0'], on) },
      { name: 'ready', run: async () => startOn(gateway, [program, '--config', gateway.configFile, 'run'], on) },
    ];
    const times = await inRounds(starts, rounds, (line) => tell(`${machine}: ${line}`));
    const [bare = [], ready = []] = starts.map(({ name }) => times.get(name));
    const how = 'wall time';
    figures.push({ name: `${machine}: start to READY`, unit: 'ms', value: spreadOf(ready), how });
    const value = ratioOf(ready, bare);
    figures.push({ name: `${machine}: start to READY / node -e 0`, unit: '×', value, how: 'pairs on that machine' });
  }
  return { suite: 'small', measurements: measurementsOf(costs), figures };
}

type Argv = readonly [string, ...string[]];

async function timeOfBare(argv: Argv, on: SmallerMachine): Promise<number> {
  await using machine = await onSmallerMachine(argv, on);
  const [file, ...args] = machine.argv;
  const before = performance.now();
  await once(spawn(file, args, { stdio: 'ignore' }), 'exit');
  return performance.now() - before;
}

async function startOn(gateway: IdleGateway, argv: Argv, on: SmallerMachine): Promise<number> {
  await using machine = await onSmallerMachine(argv, on);
  return await timeToReady(gateway, machine.argv);
}
