import { afterAll, beforeAll, expect, test } from 'vitest';

import type { MeasurementSettings, OutputSettings } from '../../../../src/telemetry/settings.ts';
import { publish } from '../../../../src/telemetry/sources/mqtt.ts';
import { noLogin } from '../../mqtt/no-login.ts';
import { Mosquitto } from '../../service/messaging/mosquitto.ts';
import { deadline, measurement, noReduction, Rig, until } from '../telemetry-rig.ts';

let broker: Mosquitto;

beforeAll(async () => {
  broker = await Mosquitto.start({ persistence: true });
});
afterAll(async () => {
  await broker[Symbol.asyncDispose]();
});

function topics(topic: string, event: string, reduction: Partial<OutputSettings['reduction']>): MeasurementSettings {
  const source = {
    ...noLogin,
    kind: 'mqtt',
    url: broker.url,
    topic,
    retained: 'once',
    idleTimeoutMs: undefined,
  } as const;
  const [output] = measurement(event, source).outputs;
  if (output === undefined) throw new Error('it has an output');
  return { ...measurement(event, source), outputs: [{ ...output, reduction: { ...noReduction, ...reduction } }] };
}

async function send(...messages: readonly (readonly [string, number])[]): Promise<void> {
  for (const [topic, value] of messages) await publish({ ...noLogin, url: broker.url, topic }, `${value}`, deadline());
}

function isConnected({ telemetry }: Rig): boolean {
  return telemetry.status().sources.every(({ state }) => state !== undefined);
}

// Regression: 20, 30, 20.1 and 30.1 were one series, of which each value was news.
test('each topic below a wildcard has its own deadband, and its name in the event', async () => {
  const deadband = { kind: 'absolute', value: 0.5 } as const;
  await using rig = new Rig({ measurements: [topics('room/+', 'climate/{topic}', { deadband })] });
  await until(() => isConnected(rig));
  await send(['room/a', 20], ['room/b', 30], ['room/a', 20.1], ['room/b', 30.1], ['room/a', 21]);
  await until(() => rig.service.valuesOf('climate/room/a').length === 2);
  expect(rig.service.valuesOf('climate/room/a')).toEqual([20, 21]);
  expect(rig.service.valuesOf('climate/room/b')).toEqual([30]);
});

test('each topic below a wildcard has its own period', async () => {
  const over = { periodMs: 1, aggregate: 'max' } as const;
  await using rig = new Rig({ measurements: [topics('avg/#', 'most', { over })] });
  await until(() => isConnected(rig));
  await send(['avg/a', 1], ['avg/b', 100], ['avg/a', 2], ['avg/b', 200]);
  await until(() => rig.service.valuesOf('most').length >= 2); // on a slow machine, the next periods end, too
  expect(rig.service.valuesOf('most').slice(0, 2)).toEqual([1, 100]);
});

// Regression: each reconnection made a new datapoint of a message that the broker had kept.
test('a message that the broker kept becomes one datapoint, however often the connection breaks', async () => {
  await send(['kept', 11.5]);
  await using rig = new Rig({ measurements: [topics('kept', 'kept', {})] });
  await until(() => rig.service.valuesOf('kept').length === 1);
  for (let restarts = 0; restarts < 2; restarts += 1) {
    const [{ failures } = { failures: 0 }] = rig.telemetry.status().sources;
    await broker.restart();
    await until(() => (rig.telemetry.status().sources[0]?.failures ?? 0) > failures && isConnected(rig));
  }
  await send(['kept', 12]);
  await until(() => rig.service.valuesOf('kept').includes(12));
  expect(rig.service.valuesOf('kept')).toEqual([11.5, 12]);
});
