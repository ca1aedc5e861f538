import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';

import { FileIdentityStore } from '../../../../src/service/identity.ts';
import { RestTransport } from '../../../../src/service/rest/transport.ts';
import { ServiceSession } from '../../../../src/service/session.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { Delivery } from '../../../../src/telemetry/delivery/delivery.ts';
import { restSettings } from '../../../unit-and-integration/service/rest/rest-rig.ts';
import { QueueRig, points } from '../../../unit-and-integration/telemetry/queue/queue-rig.ts';
import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { writeRandomImage, writeText } from '../firmware-files.ts';
import { ServiceProcess } from '../service-process.ts';
import { spreadOf } from '../statistics.ts';
import { drainByDaemon } from './telemetry-drain.ts';
import { writtenPerDay } from './telemetry-flash.ts';

const forever = new AbortController().signal;

/** Nothing is written while it is measured how fast points go through. */
const inMemory = { writeIntervalMs: 3_600_000, writePoints: 1e9, maxMemoryPoints: 1e9, maxMemoryBytes: 1e12 };

/** Issue 5: points from push to 204, what flash is spent on, and a queue that is full. Wants root for the loop device. */
export async function telemetrySuite(context: BenchContext): Promise<SuiteResult> {
  const figures = [
    ...(await throughput(context)),
    ...flashFigures(context),
    ...(await fullSpool(context, context.quick ? 100_000 : 1_000_000)),
  ];
  return { suite: 'telemetry', measurements: [], figures };
}

// ------------------------------------------------------------------------------------------- push to accepted

async function throughput(context: BenchContext): Promise<readonly Figure[]> {
  const { workFolder, rounds, quick, tell } = context;
  const image = await writeRandomImage(join(workFolder, 'image'), 1024);
  const texts = { v1: await writeText(join(workFolder, 'image.json'), image.path) };
  const figures: Figure[] = [];
  for (const [batch, many] of [
    [1, 2_000],
    [10, 20_000],
    [500, 100_000],
  ] as const) {
    const count = quick ? many / 2 : many;
    const rates: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      tell(`round ${round + 1} of ${rounds}: points, ${batch} at a time`);
      await using service = await ServiceProcess.start({ texts });
      rates.push(await pointsPerSecond(service.url, batch, count));
    }
    figures.push({
      name: `points, batch ${batch}`,
      unit: '/s',
      value: spreadOf(rates),
      atLeast: batch === 500 ? 50_000 : undefined,
      how: `${count} points, from push to the 204 of the stand-in in another process, loopback`,
    });
  }
  return figures;
}

async function pointsPerSecond(url: string, batchPoints: number, count: number): Promise<number> {
  using rig = new QueueRig({ clock: systemClock, ...inMemory });
  await using transport = new RestTransport(restSettings(url), {
    clock: systemClock,
    random: Math.random,
    log: silentLog,
  });
  const session = new ServiceSession({
    transport,
    identities: new FileIdentityStore(rig.directory, 'bench', silentLog),
    serialNumber: 'bench',
    clock: systemClock,
    random: Math.random,
    log: silentLog,
  });
  await session.thing(forever);
  const delivery = new Delivery({
    queue: rig.queue,
    service: session,
    clock: systemClock,
    random: Math.random,
    log: silentLog,
    batchPoints,
    gatherMs: 0,
    backlogPointsPerSecond: 1e9,
    isLineTaken: () => false,
  });
  const all = points(count, 'bench');
  const before = performance.now();
  rig.queue.push(all);
  await delivery.deliverLive(forever);
  return (count / (performance.now() - before)) * 1000;
}

// ------------------------------------------------------------------------------------------------------ flash

function flashFigures({ quick, tell }: BenchContext): readonly Figure[] {
  tell('what is written to a loop device');
  const groups = quick ? 200 : 600;
  const { offlineMb, onlineMb } = writtenPerDay(groups);
  const how = `100 points in five events each 10 s, sectors written to ext4 on a loop device, ${groups} groups`;
  return [
    { name: 'written, offline', unit: 'MB/day', value: spreadOf([offlineMb]), target: 250, how },
    { name: 'written, online', unit: 'MB/day', value: spreadOf([onlineMb]), target: 0, how },
  ];
}

// ------------------------------------------------------------------------------------------------ a full queue

async function fullSpool(context: BenchContext, count: number): Promise<readonly Figure[]> {
  context.tell(`a queue of ${count} points`);
  using rig = new QueueRig({ ...inMemory, writeIntervalMs: 1e9 });
  for (let pushed = 0; pushed < count; pushed += 10_000) {
    rig.queue.push(points(10_000, `event-${(pushed / 10_000) % 5}`));
    rig.queue.flush();
  }
  rig.queue[Symbol.dispose]();
  const opened = Array.from({ length: 5 }, () => timeToOpen(rig, count));
  const workFolder = await mkdtemp(join(context.workFolder, 'drain-'));
  const { emptyMib, waitingMib, peakMib, seconds } = await drainByDaemon({ ...context, workFolder }, rig.path);
  rig.queue = rig.open();
  const mib = (value: number): string => `${Math.round(value)} MiB`;
  const how = `${count} points; resident set of the built daemon, VmRSS and VmHWM`;
  const waiting = `${how}: ${mib(emptyMib)} with nothing to deliver, ${mib(waitingMib)} with all that waits for the service`;
  return [
    {
      name: 'opening a full queue',
      unit: 'ms',
      value: spreadOf(opened),
      target: 100,
      how: `${count} points, five times`,
    },
    { name: 'memory above idle while it waits', unit: 'MiB', value: spreadOf([waitingMib - emptyMib]), how: waiting },
    {
      name: 'memory above idle while draining',
      unit: 'MiB',
      value: spreadOf([peakMib - emptyMib]),
      target: 40,
      how: `${how}: ${mib(peakMib)} at most`,
    },
    {
      name: 'points, draining',
      unit: '/s',
      value: spreadOf([count / seconds]),
      how: `${count} points from the disk to the stand-in, backlog_points_per_second out of the way`,
    },
  ];
}

function timeToOpen(rig: QueueRig, count: number): number {
  const before = performance.now();
  using queue = rig.open();
  const took = performance.now() - before;
  if (queue.waiting !== count) throw new Error(`${queue.waiting} points are waiting`);
  return took;
}
