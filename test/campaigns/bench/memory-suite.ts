import { join } from 'node:path';

import { LoopDevice } from '../../unit-and-integration/slots/loop-device.ts';
import { installByAgent } from './bench-agent.ts';
import type { BenchContext } from './context.ts';
import { measurementsOf } from './figures.ts';
import type { SuiteResult } from './figures.ts';
import { writeRandomImage, writeText } from './firmware-files.ts';
import { ServiceProcess } from './service-process.ts';
import { inRounds, ratioOf, spreadOf } from './statistics.ts';

const TIMES = 4;

/** Does memory grow with the image? One of the usual size, and one four times as large. */
export async function memorySuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, program, sizeBytes, on, tell } = context;
  tell('writing the firmwares');
  await using device = await LoopDevice.attach(TIMES * sizeBytes);
  const path = (name: string): string => join(workFolder, name);
  const small = await writeRandomImage(path('small'), sizeBytes);
  const large = await writeRandomImage(path('large'), TIMES * sizeBytes);
  const texts = {
    small: await writeText(path('small.json'), small.path),
    large: await writeText(path('large.json'), large.path),
  };
  await using service = await ServiceProcess.start({ texts, nginxFolder: workFolder });
  const rig = { workFolder, program, device: device.path, on };
  const contender = (version: 'small' | 'large') => ({
    name: version === 'small' ? 'one' : `${TIMES} times as large`,
    run: async () => {
      await service.setTarget(version);
      return installByAgent(rig, service);
    },
  });
  const costs = await inRounds([contender('small'), contender('large')], context.quick ? 1 : 2, tell);
  const [one = [], four = []] = [...costs.values()].map((all) => all.map(({ peakRssMib }) => peakRssMib));
  return {
    suite: 'memory',
    measurements: measurementsOf(costs),
    figures: [
      { name: 'peak RSS, the large image', unit: 'MiB', value: spreadOf(four), target: 130, how: 'time(1)' },
      { name: 'peak RSS, large / small', unit: '×', value: ratioOf(four, one), target: 1.1, how: 'pairs' },
    ],
  };
}
