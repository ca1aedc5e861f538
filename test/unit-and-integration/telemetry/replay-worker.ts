import process from 'node:process';

import { AgentError } from '../../../src/system/errors.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { Delivery } from '../../../src/telemetry/delivery/delivery.ts';
import type { ValueService } from '../../../src/telemetry/ports.ts';
import { DatapointQueue } from '../../../src/telemetry/queue/queue.ts';
import { maxLives } from './replay.ts';

/** node replay-worker.ts SPOOL SERVICE FIRST LAST GROUP LIFE: pushes numbers, tells which are acknowledged, delivers until all are. */
const [path = '', url = '', first = '', last = '', group = '', life = ''] = process.argv.slice(2);
const ample = { maxBytes: 2 ** 40, maxAgeMs: 2 ** 40 };
const forever = new AbortController().signal;
const sinceBootMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

const service: ValueService = {
  postDatapoints: async (event, datapoints, signal) => {
    try {
      const request = { method: 'POST', body: datapoints.text, signal };
      const { status } = await fetch(`${url}/${event}`, request);
      if (status === 204) return;
    } catch (error) {
      signal.throwIfAborted();
      throw new AgentError({
        code: 'connection-reset',
        message: 'cut',
        remedy: 'retry',
        exit: 'unreachable',
        cause: error,
      });
    }
    throw new AgentError({ code: 'service-unavailable', message: '503', remedy: 'retry', exit: 'tryAgain' });
  },
  setProperty: async () => {},
  property: async () => undefined,
  requestTime: async () => true,
};

const queue = new DatapointQueue({
  path,
  bounds: { urgent: ample, normal: ample, bulk: ample, maxBytes: 2 ** 40 },
  minFreeBytes: 0,
  maxDeadLetters: 100,
  writeIntervalMs: 200,
  writePoints: 5_000,
  memoryPoints: 50_000,
  flashBytesPerDay: Number.POSITIVE_INFINITY,
  clock: systemClock,
  boot: { name: 'boot', sinceBootMs },
  log: silentLog,
});
queue.learnClock(Date.now() - sinceBootMs());
const delivery = new Delivery({
  queue,
  service,
  clock: systemClock,
  random: () => Math.random() / 100, // of the pauses after a failure
  log: silentLog,
  batchPoints: 500,
  gatherMs: 0,
  backlogPointsPerSecond: 1_000_000,
  isLineTaken: () => false,
});
void queue.run(forever);
void delivery.run(forever);

for (let next = Number(first); next < Number(last); next += Number(group)) {
  const count = Math.min(Number(group), Number(last) - next);
  const points = Array.from({ length: count }, (_, index) => ({
    event: `event-${(next + index) % 3}`,
    class: 'normal' as const,
    value: (next + index) * maxLives + Number(life),
    time: { kind: 'known', atMs: Date.now() } as const,
  }));
  await queue.acknowledged(queue.push(points), forever);
  process.stdout.write(`${next + count}\n`);
}
for (;;) {
  const { pointsInMemory, pointsOnDisk } = queue.figures();
  if (pointsInMemory + pointsOnDisk === 0) break;
  queue.flush();
  await systemClock.sleep(20, forever);
}
process.stdout.write(`done ${JSON.stringify(queue.figures())}\n`);
process.exit(0);
