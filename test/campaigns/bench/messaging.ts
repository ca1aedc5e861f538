import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { Mosquitto } from '../../unit-and-integration/service/messaging/mosquitto.ts';
import { agentEnvironment } from './bench-agent.ts';
import type { BenchContext } from './context.ts';
import type { Figure, SuiteResult } from './figures.ts';
import { writeRandomImage, writeText } from './firmware-files.ts';
import { nothingToDo } from './idle/idle-daemon.ts';
import { forgetPeak, memoryOf, peakOf } from './process-facts.ts';
import { ServiceProcess } from './service-process.ts';
import { inRounds, ratioOf, spreadOf } from './statistics.ts';

const run = promisify(execFile);
const MIB = 2 ** 20;
/** In base64 it is the largest message that is permitted without a setting. */
const IMAGE_BYTES = 48 * MIB;
const TINY_BYTES = 64 * 1024;
const OVER_THE_MESSAGE_MIB = 40;

interface Rig {
  readonly context: BenchContext;
  readonly broker: Mosquitto;
  readonly service: ServiceProcess;
}

type Form = 'messaging' | 'rest';

/**
 * Issue 6: an image of 48 MiB in messaging form against REST form. Requires mosquitto from Debian.
 */
export async function messagingSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, tell, rounds } = context;
  tell('writing the firmwares');
  const path = (name: string): string => join(workFolder, name);
  const image = await writeRandomImage(path('image'), IMAGE_BYTES);
  const tiny = await writeRandomImage(path('tiny'), TINY_BYTES);
  const texts = {
    tiny: await writeText(path('tiny.json'), tiny.path),
    plain: await writeText(path('plain.json'), image.path),
  };
  await using broker = await Mosquitto.start();
  await using service = await ServiceProcess.start({ texts, brokerUrl: broker.url });
  const rig = { context, broker, service };
  const updates = await inRounds(
    [
      { name: 'messaging', run: async () => update(rig, 'messaging') },
      { name: 'rest', run: async () => update(rig, 'rest') },
    ],
    rounds,
    tell,
  );
  return {
    suite: 'messaging',
    measurements: [],
    figures: updateFigures(updates.get('messaging') ?? [], updates.get('rest') ?? []),
  };
}

interface UpdateCost {
  /** Duration of the command, through a running daemon. */
  readonly seconds: number;
  /** The daemon's memory before it. */
  readonly idleRssMib: number;
  readonly peakRssMib: number;
}

function updateFigures(messaging: readonly UpdateCost[], rest: readonly UpdateCost[]): readonly Figure[] {
  const seconds = (costs: readonly UpdateCost[]): number[] => costs.map((cost) => cost.seconds);
  const above = (costs: readonly UpdateCost[]): number[] => costs.map((cost) => cost.peakRssMib - cost.idleRssMib);
  const messageMib = (IMAGE_BYTES / MIB / 3) * 4;
  const through = 'agent --update-now --no-reboot through a daemon that was idle and connected';
  const peak = 'VmHWM of the daemon, less its RSS before';
  return [
    { name: '48 MiB, messaging', unit: 's', value: spreadOf(seconds(messaging)), how: through },
    { name: '48 MiB, REST', unit: 's', value: spreadOf(seconds(rest)), how: through },
    {
      name: '48 MiB, messaging / REST',
      unit: '×',
      value: ratioOf(seconds(messaging), seconds(rest)),
      how: 'pairs of the same round',
    },
    {
      name: 'peak RSS above idle, messaging',
      unit: 'MiB',
      value: spreadOf(above(messaging)),
      target: messageMib + OVER_THE_MESSAGE_MIB,
      how: `${peak}; the message has ${messageMib} MiB`,
    },
    { name: 'peak RSS above idle, REST', unit: 'MiB', value: spreadOf(above(rest)), how: peak },
    {
      name: 'RSS idle, messaging',
      unit: 'MiB',
      value: spreadOf(messaging.map((cost) => cost.idleRssMib)),
      how: 'VmRSS',
    },
    { name: 'RSS idle, REST', unit: 'MiB', value: spreadOf(rest.map((cost) => cost.idleRssMib)), how: 'VmRSS' },
  ];
}

/** On a gateway whose daemon runs something small, and is idle. */
async function update({ context, broker, service }: Rig, form: Form): Promise<UpdateCost> {
  const { program, workFolder } = context;
  await service.setTarget('tiny');
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: Buffer.alloc(TINY_BYTES, 'A'),
    slotBytes: IMAGE_BYTES,
    serviceToml: `transport = "${form}"`,
    extraToml: form === 'rest' ? '' : `[service.messaging]\nurl = "${broker.url}"\ntopic_id = "a1b2"\n`,
  });
  const env = { ...process.env, ...agentEnvironment(workFolder, gateway) };
  const command = async (...args: readonly string[]): Promise<unknown> =>
    run(program, ['--config', gateway.configFile, ...args], { env });
  await command('--update-now');
  gateway.boot();
  await command('--update-now'); // commits the update
  const daemon = spawn(program, ['--config', gateway.configFile, 'run'], { stdio: ['ignore', 'ignore', 'pipe'], env });
  try {
    for await (const line of createInterface({ input: daemon.stderr })) if (nothingToDo.test(line)) break;
    daemon.stderr.resume();
    const pid = daemon.pid ?? NaN;
    const { rssMib: idleRssMib } = await memoryOf(pid);
    await forgetPeak(pid);
    await service.setTarget('plain');
    const before = performance.now();
    await command('--update-now', '--no-reboot');
    const seconds = (performance.now() - before) / 1000;
    return { seconds, idleRssMib, peakRssMib: await peakOf(pid) };
  } finally {
    const ended = once(daemon, 'exit');
    daemon.kill();
    await ended;
  }
}
