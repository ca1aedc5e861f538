import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { makeKeyPair } from '../../../rooms/firmware/artifact/keys.ts';
import { LoopDevice } from '../../../rooms/slots/loop-device.ts';
import { installByAgent, installByTwo } from '../bench-agent.ts';
import type { BenchContext } from '../context.ts';
import { measurementsOf } from '../figures.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { writeRandomImage, writeSignedArtifact, writeText } from '../firmware-files.ts';
import { IdleGateway } from '../idle/idle-daemon.ts';
import type { Cost } from '../measure.ts';
import { ServiceProcess } from '../service-process.ts';
import { inRounds, ratioOf } from '../statistics.ts';
import { memoryFigures, startFigures } from './at-rest.ts';

const run = promisify(execFile);
const TINY_BYTES = 64 * 1024;
const TARGET = 1.1;

const names = {
  one: 'one process, signed artifact',
  two: 'two processes, signed artifact',
  tinyOne: 'one process, 64 KiB',
  tinyTwo: 'two processes, 64 KiB',
} as const;

/** An agent without rights and its helper, beside one process that does all. */
export async function twoProcessesSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, program, sizeBytes, rounds, on, tell } = context;
  tell('writing the firmwares');
  await using device = await LoopDevice.attach(sizeBytes);
  const keys = makeKeyPair('ecdsa-p256');
  const textOf = async (name: string, bytes: number): Promise<string> => {
    const path = (kind: string): string => join(workFolder, `${name}.${kind}`);
    const image = await writeRandomImage(path('image'), bytes);
    await writeSignedArtifact({ path: path('artifact'), name }, image, keys);
    return writeText(path('json'), path('artifact'));
  };
  const texts = { large: await textOf('large', sizeBytes), tiny: await textOf('tiny', TINY_BYTES) };
  await using service = await ServiceProcess.start({ texts, nginxFolder: workFolder });
  const rig = { workFolder, program, device: device.path, trustedKey: keys.publicPem, on };
  const contender = (name: string, version: keyof typeof texts, install: typeof installByAgent) => ({
    name,
    run: async () => {
      await empty(device.path, sizeBytes);
      await service.setTarget(version);
      return install(rig, service);
    },
  });
  const contenders = [
    contender(names.one, 'large', installByAgent),
    contender(names.two, 'large', installByTwo),
    contender(names.tinyOne, 'tiny', installByAgent),
    contender(names.tinyTwo, 'tiny', installByTwo),
  ];
  for (const { run: install } of contenders.slice(2)) await install(); // fills the caches
  const costs = await inRounds(contenders, rounds, tell);
  await using one = await IdleGateway.create(context, 'one');
  await using two = await IdleGateway.create(context, 'two');
  tell('starting daemons');
  const starts = await startFigures({ one, two }, context.quick ? 3 : 10);
  const memory = await memoryFigures({ one, two });
  return {
    suite: 'two-processes',
    measurements: measurementsOf(costs),
    figures: [...figures(costs), ...starts, ...memory],
  };
}

/** Zeros: what is there already would not be written again. */
async function empty(device: string, sizeBytes: number): Promise<void> {
  const count = String(Math.ceil(sizeBytes / 2 ** 20));
  await run('dd', ['if=/dev/zero', `of=${device}`, 'bs=1M', `count=${count}`, 'oflag=direct', 'conv=fsync']);
}

function figures(costs: ReadonlyMap<string, readonly Cost[]>): readonly Figure[] {
  const of = (name: string, what: 'cpuSeconds' | 'seconds'): readonly number[] =>
    (costs.get(name) ?? []).map((cost) => cost[what]);
  const without = (all: readonly number[], start: readonly number[]): readonly number[] =>
    all.map((value, round) => value - (start[round] ?? NaN));
  const how = 'pairs of the same round';
  return (['cpuSeconds', 'seconds'] as const).flatMap((what): readonly Figure[] => {
    const [one, two, tinyOne, tinyTwo] = Object.values(names).map((name) => of(name, what));
    const title = what === 'cpuSeconds' ? 'processor time' : 'time';
    const name = `${title}, two / one`;
    return [
      { name, unit: '×', value: ratioOf(two ?? [], one ?? []), target: TARGET, how },
      {
        name: `${name}, without those of 64 KiB`,
        unit: '×',
        value: ratioOf(without(two ?? [], tinyTwo ?? []), without(one ?? [], tinyOne ?? [])),
        target: TARGET,
        how: `${how}; starts, look, boot environment and journal subtracted`,
      },
    ];
  });
}
