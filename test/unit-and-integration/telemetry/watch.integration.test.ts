import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import type { BrokerLogin } from '../../../src/mqtt/open-broker.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { mqttSource } from '../../../src/telemetry/sources/mqtt.ts';
import { Watch } from '../../../src/telemetry/watch.ts';
import { folderUntilTestEnds, untilTestEnds } from '../../until-test-ends.ts';
import { noLogin } from '../mqtt/no-login.ts';
import { Mosquitto } from '../service/messaging/mosquitto.ts';
import { FakeValues } from './fake-values.ts';

const deadline = (): AbortSignal => AbortSignal.timeout(60_000);
const topic = 'gateway/limit';

let broker: Mosquitto;
let login: Required<BrokerLogin>;
let service: FakeValues;
let watch: Watch;

beforeEach(async () => {
  const directory = folderUntilTestEnds();
  broker = untilTestEnds(await Mosquitto.start({ users: { agent: 's3cret' } }));
  service = new FakeValues();
  const passwordFile = join(directory, 'password');
  writeFileSync(passwordFile, 's3cret\n');
  login = { ...noLogin, url: broker.url, username: 'agent', passwordFile };
  const into = { ...login, kind: 'mqtt', topic } as const;
  watch = new Watch({
    watch: { id: 'limit', everyMs: 1_000, output: into },
    service,
    clock: systemClock,
    log: silentLog,
  });
});

/** Returns the message that a new subscriber receives. */
async function retained(): Promise<unknown> {
  const end = new AbortController();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const source = mqttSource({ ...login, topic, retained: 'once' });
  const take = (read: () => unknown): void => resolve(read());
  const intake = { connected: () => {}, take, drop: () => {}, rest: () => undefined };
  const run = source.run(intake, AbortSignal.any([end.signal, deadline()]));
  const value = await Promise.race([promise, run]);
  end.abort(new Error('the test has it'));
  await run.catch(() => {});
  return value;
}

test('a watched property is retained on the topic of mosquitto, and follows its changes', async () => {
  service.properties.set('limit', { high: 30 });
  await watch.poll(deadline());
  expect(await retained()).toEqual({ high: 30 });
  service.properties.set('limit', 'off');
  await watch.poll(deadline());
  expect(await retained()).toBe('off');
});

test('an unresponsive broker does not delay the end', async () => {
  service.properties.set('limit', 30);
  broker.freeze();
  const end = new AbortController();
  const look = watch.poll(end.signal);
  setImmediate(() => end.abort(new Error('the agent ends')));
  await expect(look).rejects.toThrow('the agent ends');
  broker.thaw();
  await watch.poll(deadline());
  expect(await retained()).toBe(30);
});

test('a value that mosquitto rejected is passed on with the next check', async () => {
  await watch.poll(deadline());
  service.properties.set('limit', 30);
  await broker.stop();
  await watch.poll(deadline());
  expect(watch.figures.lastError).toContain('127.0.0.1');
  await broker.start();
  await watch.poll(deadline());
  expect(watch.figures.lastError).toBeUndefined();
  expect(await retained()).toBe(30);
});
