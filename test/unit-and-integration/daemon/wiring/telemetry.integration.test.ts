import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, test } from 'vitest';

import { systemClock } from '../../../../src/system/time/clock.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';

const extraToml = `
[telemetry]
gather = "10ms"

[[sensors]]
event = "load"
every = "200ms"
source = { kind = "system", metric = "load1" }
`;

test('readings of a sensor and datapoints of an operator or a program, sent while the service is unavailable, arrive after the daemon was killed', async () => {
  await using service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(Buffer.alloc(100)) }] });
  const options = { serviceUrl: service.url, image: Buffer.alloc(1_000), slotBytes: 1_000_000, extraToml };
  await using gateway = await FileGateway.create({ ...options, updateToml: 'follow = "none"' });
  const valuesOf = (event: string): unknown[] =>
    (service.world.things[0]?.datapoints.get(event) ?? []).map(({ value }) => value);
  const until = async (condition: () => boolean): Promise<void> => {
    const signal = AbortSignal.timeout(60_000);
    while (!condition()) await systemClock.sleep(50, signal);
  };
  const daemon = await gateway.startDaemon();
  await until(() => valuesOf('load').length > 1);
  service.fail({ operation: 'postDatapoints', fault: { kind: 'status', status: 503 }, times: 1_000_000 });
  for (const value of ['1', '2', '3']) {
    expect(await gateway.run('datapoint', 'send', 'level', value)).toMatchObject({ exitCode: 0 });
  }
  const points = [4, 5].map((value) => ({ event: 'level', value }));
  expect(await pushByCurl(join(gateway.directory, 'run/root.sock'), JSON.stringify({ points }))).toBe(200);
  const queueStatus = async (): Promise<unknown> => gateway.json('queue', 'status');
  const failing = { delivery: { error: expect.stringContaining('503') as unknown } };
  await expect.poll(queueStatus).toMatchObject(failing);
  await stop(daemon, 'SIGKILL');
  service.clearFaults();
  await gateway.startDaemon();
  await until(() => valuesOf('level').length >= 5);
  expect(valuesOf('level')).toEqual([1, 2, 3, 4, 5]);
});

const exact = '{"big":18446744073709551615,"far":[1e400],"fraction":0.1,"count":9007199254740993}';

test('numbers beyond the precision of a double keep their digits, from any source, also when read', async () => {
  await using service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(Buffer.alloc(100)) }] });
  const options = { serviceUrl: service.url, image: Buffer.alloc(1_000), slotBytes: 1_000_000, extraToml };
  await using gateway = await FileGateway.create({ ...options, updateToml: 'follow = "none"' });
  await gateway.startDaemon();
  expect(await gateway.run('property', 'set', 'limits', exact)).toMatchObject({ exitCode: 0 });
  const sent = await gateway.run('datapoint', 'send', 'level', exact, '--json');
  expect(sent.stdout).toContain(exact);
  expect(
    await pushByCurl(join(gateway.directory, 'run/root.sock'), `{"points":[{"event":"level","value":${exact}}]}`),
  ).toBe(200);
  const signal = AbortSignal.timeout(60_000);
  const level = () => service.world.things[0]?.datapoints.get('level'); // the gateway may not be activated yet
  while (level()?.length !== 2) await systemClock.sleep(50, signal);
  const points = level()?.map(({ value }) => JSON.stringify(value));
  const [thing] = service.world.things;
  expect([JSON.stringify(thing?.properties.get('limits')), points]).toEqual([exact, [exact, exact]]);
  expect((await gateway.run('property', 'get', 'limits')).stdout).toBe(`${exact}\n`);
});

// Regression: each reload sent retained messages and values within a deadband again, with a new time.
test('a reload keeps the sources whose settings it does not change', async () => {
  await using service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(Buffer.alloc(100)) }] });
  const path = join(tmpdir(), `level-${randomUUID()}`);
  await writeFile(path, '1');
  const level = `[[sensors]]\nevent = "level"\nevery = "100ms"\ndeadband = 1\nsource = { kind = "file", path = "${path}" }\n`;
  const options = { serviceUrl: service.url, image: Buffer.alloc(1_000), slotBytes: 1_000_000 };
  const withLimit = (attempts: number, toml: string) => ({
    ...options,
    extraToml: `${extraToml}${toml}`,
    updateToml: `follow = "none"\nmax_attempts = ${attempts}`,
  });
  await using gateway = await FileGateway.create(withLimit(3, level));
  let reloads = 0;
  const daemon = await gateway.startDaemon((line) => void (reloads += line.includes('was read again') ? 1 : 0));
  const signal = AbortSignal.timeout(60_000);
  const values = (): unknown[] => (service.world.things[0]?.datapoints.get('level') ?? []).map(({ value }) => value);
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await systemClock.sleep(50, signal);
  };
  const change = async (attempts: number, toml: string, count: number): Promise<void> => {
    await gateway.configure(withLimit(attempts, toml));
    daemon.kill('SIGHUP');
    await until(() => reloads === count);
  };
  await until(() => values().length === 1);
  await change(4, level, 1);
  await writeFile(path, '5');
  await until(() => values().length === 2);
  await change(4, level.replace('100ms', '150ms'), 2);
  await until(() => values().length === 3);
  await rm(path);
  expect(values()).toEqual([1, 5, 5]);
});

/** As a program does it that knows nothing of this one; the status of the answer. */
async function pushByCurl(socket: string, body: string): Promise<number> {
  const args = ['--silent', '--unix-socket', socket, '--data', body];
  const target = ['--output', '/dev/null', '--write-out', '%{http_code}', 'http://agent/v1/datapoints'];
  return Number((await promisify(execFile)('curl', [...args, ...target])).stdout);
}

/** A board without a battery, in a network without a time server. */
test('datapoints of a gateway that starts in 1990 with an unsynchronized clock get the service’s time', async () => {
  await using service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(Buffer.alloc(100)) }] });
  const options = { serviceUrl: service.url, image: Buffer.alloc(1_000), slotBytes: 1_000_000, extraToml };
  await using gateway = await FileGateway.create({ ...options, updateToml: 'follow = "none"' });
  const beganMs = Date.now();
  service.fail({ operation: 'any', fault: { kind: 'status', status: 503 }, times: 1_000_000 });
  await gateway.startDaemon(() => {}, {
    LD_PRELOAD: '/usr/$LIB/faketime/libfaketime.so.1',
    FAKETIME: '@1990-01-01 00:00:00',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  });
  expect(await gateway.run('datapoint', 'send', 'level', '1')).toMatchObject({ exitCode: 0 });
  expect(await gateway.json('queue', 'status')).toMatchObject({ clock: 'unset' });
  expect(service.callsOf('postDatapoints')).toEqual([]);
  service.clearFaults();
  const level = (): readonly { readonly at: string }[] => service.world.things[0]?.datapoints.get('level') ?? [];
  const signal = AbortSignal.timeout(60_000);
  while (level().length === 0) await systemClock.sleep(50, signal);
  const atMs = Date.parse(level()[0]?.at ?? '');
  expect(atMs).toBeGreaterThan(beganMs - 2_000);
  expect(atMs).toBeLessThan(Date.now() + 1_000);
  expect(await gateway.json('queue', 'status')).toMatchObject({ clock: 'service' });
});
