import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { agentEnvironment } from '../bench-agent.ts';
import type { BenchContext } from '../context.ts';
import { writeText } from '../firmware-files.ts';
import { end } from '../idle/idle-daemon.ts';
import { forgetPeak, memoryOf, peakOf } from '../process-facts.ts';
import { ServiceProcess } from '../service-process.ts';

const run = promisify(execFile);
const SLOT_BYTES = 64 * 1024;
const REST_MS = 3_000;
const LOOK_MS = 250;

const extraToml = `
[telemetry]
backlog_points_per_second = 1_000_000
`;

export interface Drained {
  /** Resident, with an empty queue; with all that waits; at the peak of draining. */
  readonly emptyMib: number;
  readonly waitingMib: number;
  readonly peakMib: number;
  /** From the service's return until nothing waits. */
  readonly seconds: number;
}

/** The built daemon, whose service is away and comes back. `queue` is copied into its state directory. */
export async function drainByDaemon(
  { workFolder, program }: Pick<BenchContext, 'workFolder' | 'program'>,
  queue: string,
): Promise<Drained> {
  const image = Buffer.alloc(SLOT_BYTES, 'image');
  await writeFile(join(workFolder, 'drain-image'), image);
  const text = await writeText(join(workFolder, 'drain-image.json'), join(workFolder, 'drain-image'));
  await using service = await ServiceProcess.start({ texts: { v1: text } });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image,
    slotBytes: SLOT_BYTES,
    updateToml: 'follow = "none"',
    extraToml,
  });
  const env = { ...process.env, ...agentEnvironment(workFolder, gateway) };
  const start = async (): Promise<ChildProcess & { readonly pid: number }> => {
    const daemon = spawn(program, ['--config', gateway.configFile, 'run'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env,
    });
    for await (const line of createInterface({ input: daemon.stderr })) if (line.includes('the agent is up')) break;
    daemon.stderr.resume();
    await sleep(REST_MS);
    return Object.assign(daemon, { pid: daemon.pid ?? NaN });
  };
  const waiting = async (): Promise<number> => {
    const { stdout } = await run(program, ['--config', gateway.configFile, 'queue', 'status', '--json'], { env });
    const { queue: figures } = JSON.parse(stdout) as { queue: { pointsOnDisk: number; pointsInMemory: number } };
    return figures.pointsOnDisk + figures.pointsInMemory;
  };
  const empty = await start();
  const { rssMib: emptyMib } = await memoryOf(empty.pid);
  await end(empty);
  await mkdir(join(gateway.directory, 'state'), { recursive: true });
  await copyFile(queue, join(gateway.directory, 'state/queue.db'));
  await service.fail('postDatapoints');
  const daemon = await start();
  try {
    const { rssMib: waitingMib } = await memoryOf(daemon.pid);
    await forgetPeak(daemon.pid);
    await service.recover();
    const before = performance.now();
    while ((await waiting()) > 0) await sleep(LOOK_MS);
    return { emptyMib, waitingMib, peakMib: await peakOf(daemon.pid), seconds: (performance.now() - before) / 1000 };
  } finally {
    await end(daemon);
  }
}
