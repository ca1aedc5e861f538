import { once } from 'node:events';
import { appendFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import type { OutputOf } from '../../../../src/control/operations.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';

let gateway: FileGateway;
let level: string;

beforeEach(async () => {
  const options = { serviceUrl: 'http://127.0.0.1:9', image: Buffer.from('healthy 0'), slotBytes: 1024 * 1024 };
  gateway = untilTestEnds(await FileGateway.create(options));
  level = join(gateway.directory, 'level');
  const extraToml = `
[[sensors]]
event = "level"
every = "1h"
source = { kind = "file", path = "${level}" }
[[sensors]]
event = "missing"
every = "1h"
source = { kind = "hwmon", chip = "there-is-none", input = "temp1" }
`;
  await gateway.configure({ ...options, extraToml });
});

async function sensors(): Promise<OutputOf<'sensors'>> {
  return (await gateway.json('sensors')) as OutputOf<'sensors'>;
}

test('without a daemon the configured sensors are listed, and one can be tried in this process', async () => {
  await writeFile(level, '42');
  expect(await sensors()).toMatchObject({ isLive: false, sensors: [{ readings: 0 }, { readings: 0 }] });
  expect(await gateway.json('sensors', 'level', '--try')).toMatchObject({ kind: 'file', reading: '42' });
  const { exitCode, stderr } = await gateway.run('sensors', 'missing', '--try');
  expect(exitCode).toBe(70);
  expect(stderr).toMatch(/no chip there-is-none \(source-failed\)\n *agent sensors scan hwmon shows/);
});

test('the daemon shows readings and failures, and a test reading is neither counted nor stored nor sent', async () => {
  await writeFile(level, '{"at": 42}');
  await gateway.startDaemon();
  const read = async (): Promise<OutputOf<'sensors'>> => {
    for (;;) {
      const report = await sensors();
      if (report.sensors.every(({ readings, failures }) => readings + failures > 0)) return report;
    }
  };
  expect(await read()).toMatchObject({
    isLive: true,
    sensors: [
      { name: 'sensors[0] (level)', readings: 1, lastReading: '{"at":42}' },
      { lastErrorCode: 'source-failed', failures: 1, readings: 0 },
    ],
  });
  const before = await gateway.json('queue', 'status');
  await writeFile(level, '43');
  expect(await gateway.json('sensors', 'level', '--try')).toMatchObject({ reading: '43' });
  expect(await sensors()).toMatchObject({ sensors: [{ readings: 1, lastReading: '{"at":42}' }, {}] });
  const pointsOf = (spool: unknown): unknown => {
    const { spool: kept, delivery } = spool as OutputOf<'queue'>;
    return [kept.pointsInMemory + kept.pointsOnDisk, delivery.delivered];
  };
  expect(pointsOf(await gateway.json('queue', 'status'))).toEqual(pointsOf(before));
});

test('what a scan of a Modbus device prints is taken as a configuration, and the daemon reads it', async () => {
  await using device = await modbusDevice(3);
  const { stdout, exitCode } = await gateway.run('sensors', 'scan', 'modbus', `127.0.0.1:${device.port}`);
  expect(exitCode).toBe(0);
  await appendFile(gateway.configFile, stdout);
  expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 0 });
  expect(await gateway.json('sensors', 'modbus_unit_3', '--try')).toMatchObject({
    kind: 'modbus-tcp',
    reading: '42',
  });
});

test('an unreachable address is an error that names the things to check', async () => {
  const { exitCode, stderr } = await gateway.run('sensors', 'scan', 'modbus', '127.0.0.1:1');
  expect(exitCode).toBe(70);
  expect(stderr).toMatch(/refused the connection.*\(source-failed\)\n *check the address/);
});

/** Answers for one unit with 42, and for all others with a gateway's exception for a missing device. */
async function modbusDevice(wanted: number): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (request) => {
      const unit = request[6] ?? 0;
      const pdu = unit === wanted ? [3, 2, 0, 42] : [0x83, 11];
      const head = [request[0] ?? 0, request[1] ?? 0, 0, 0, 0, pdu.length + 1, unit];
      socket.write(Buffer.from([...head, ...pdu]));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}
