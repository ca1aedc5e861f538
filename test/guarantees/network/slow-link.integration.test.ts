import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import process from 'node:process';

import { describe, expect, test } from 'vitest';

import { agentProgram } from '../../fakes/machine/built-agent.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions, Finished } from '../../fakes/machine/file-gateway.ts';
import { SlowLink } from '../../fakes/network/slow-link.ts';
import { howMuch } from '../../full.ts';

const root = resolve(import.meta.dirname, '../../..');
const image = Buffer.alloc(4096, 'healthy');

/** A device that holds 42 in every register. */
const meter = `require('node:net').createServer((socket) => socket.on('data', (request) => {
  socket.write(Buffer.from([request[0], request[1], 0, 0, 0, 5, request[6], request[7], 2, 0, 42]));
})).listen(1502, '0.0.0.0', () => console.log('up'))`;

async function gatewayAt(link: SlowLink, options: Partial<FileGatewayOptions> = {}): Promise<FileGateway> {
  return FileGateway.create({
    serviceUrl: 'http://dual.test:8080',
    image,
    slotBytes: 1024 * 1024,
    serviceToml: 'insecure = true',
    program: await link.nearProgram(agentProgram()),
    healthDeadline: '20s',
    reports: false,
    ...options,
  });
}

async function startService(link: SlowLink, ...options: readonly string[]): Promise<void> {
  const main = join(root, 'test/fakes/service/main.ts');
  const command = [process.execPath, main, '--host', '0.0.0.0', '--port', '8080', '--quiet', ...options];
  await link.startFar(command, 'the simulator listens');
}

const activated: Partial<Finished> = { exitCode: 0, stderr: '' };

// nodejs/node#54359, #47822, #52082: node:net gives each address but the last one 250 ms. The tests of one round trip
// wait most of the time, so they run concurrently.
describe.each(howMuch([20, 400, 2_000], [20, 2_000]))(
  'over a round trip of %i ms, to a name with an address that cannot be reached',
  (ms) => {
    test.concurrent('the service is reached by REST', async () => {
      await using link = await SlowLink.open(ms);
      await startService(link, '--version', '1.0=random:1k');
      await using gateway = await gatewayAt(link);
      expect(await gateway.run('activate')).toMatchObject(activated);
    });

    test.concurrent('the service is reached by MQTT', async () => {
      await using link = await SlowLink.open(ms);
      await using gateway = await gatewayAt(link, {
        serviceToml: `insecure = true\ntransport = "messaging"\nmessaging = { url = "mqtt://dual.test", topic_id = "a1b2" }`,
      });
      const broker = join(gateway.directory, 'mosquitto.conf');
      await writeFile(broker, 'listener 1883 0.0.0.0\nallow_anonymous true\n');
      await link.startFar(['mosquitto', '-v', '-c', broker], 'running');
      await startService(link, '--version', '1.0=random:1k', '--broker', 'mqtt://127.0.0.1');
      expect(await gateway.run('activate')).toMatchObject(activated);
    });

    test.concurrent('a register is read by Modbus TCP', async () => {
      await using link = await SlowLink.open(ms);
      await link.startFar([process.execPath, '-e', meter], 'up');
      const source = `{ kind = "modbus-tcp", host = "dual.test", port = 1502, address = 0 }`;
      const extraToml = `[[sensors]]\nevent = "m"\nevery = "1s"\ntimeout = "10s"\nsource = ${source}`;
      await using gateway = await gatewayAt(link, { extraToml });
      expect((await gateway.run('sensors', 'm', '--try')).stdout).toContain('42');
    });

    test.concurrent('a good release is committed', async () => {
      await using link = await SlowLink.open(20);
      await startService(link, '--version', `1.0=${join(root, 'package.json')}`);
      await using gateway = await gatewayAt(link);
      expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
      gateway.boot();
      link.setRoundTrip(ms);
      expect((await gateway.run('--update-now')).stdout).toContain('Done: 1.0 is installed.');
    });
  },
);

// Regression: five round trips in turn missed the deadline of 10 s.
test('over a round trip of 2000 ms, the broker lets in a daemon with all topics', async () => {
  await using link = await SlowLink.open(2_000);
  await using gateway = await gatewayAt(link, {
    serviceToml: `insecure = true\ntransport = "messaging"\nmessaging = { url = "mqtt://dual.test", topic_id = "a1b2", wake_topic = "wake", status_topic = "status" }`,
  });
  const broker = join(gateway.directory, 'mosquitto.conf');
  await writeFile(broker, 'listener 1883 0.0.0.0\nallow_anonymous true\n');
  await link.startFar(['mosquitto', '-v', '-c', broker], 'running');
  await gateway.startDaemon();
  await expect
    .poll(async () => gateway.json('status'), { interval: 1_000 })
    .toMatchObject({ service: { broker: { state: 'connected' } } });
});

test('an address that swallows everything does not keep the other one from being reached', async () => {
  await using link = await SlowLink.open(2_000);
  await link.swallowIpv6();
  await startService(link, '--version', '1.0=random:1k');
  await using gateway = await gatewayAt(link);
  expect(await gateway.run('activate')).toMatchObject(activated);
});

test('a failure lists the addresses and the reply of each one', async () => {
  await using link = await SlowLink.open(20);
  await using gateway = await gatewayAt(link, { serviceToml: 'insecure = true' });
  const { stderr } = await gateway.run('activate');
  expect(stderr).toContain(
    'dual.test:8080 refused the connection (10.9.0.2: refused the connection, fd00:dead::2: cannot be reached)',
  );
});
