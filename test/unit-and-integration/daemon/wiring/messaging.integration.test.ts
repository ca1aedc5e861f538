import { readFile, writeFile } from 'node:fs/promises';

import { describe, expect, test } from 'vitest';

import type { StatusReport } from '../../../../src/control/reports.ts';
import { stop } from '../../../fakes/machine/file-gateway.ts';
import { testInFull } from '../../../full-run.ts';
import { howMuch } from '../../../full.ts';
import { CuttableLink } from '../../service/messaging/cuttable-link.ts';
import { image, IMAGE_BYTES, MessagingGateway } from './messaging-rig.ts';
import type { Form, FormOptions } from './messaging-rig.ts';

/** The service's record, and the beginning of the running slot. */
async function installed({ gateway, service }: MessagingGateway): Promise<readonly [string | undefined, string]> {
  const text = (await gateway.imageOf(gateway.booted, IMAGE_BYTES)).toString('latin1');
  const isWhole = text === image(text.slice(0, 9)).toString('latin1');
  return [service.world.things[0]?.currentVersionId, isWhole ? text.slice(0, 9) : 'torn'];
}

const patience = { interval: 100 };
/** For waits of seconds. */
const rarely = { ...patience, interval: 500 };
const one = ['v1', 'healthy 1'];
const two = ['v2', 'healthy 2'];

describe('the whole update, from activation to switch, in messaging form', () => {
  // with the other version it is disturbed, below
  test.each(howMuch(['protocol_version = 5', 'protocol_version = 4'], ['protocol_version = 4']))(
    'goes as in REST form, with %s',
    async (messagingToml) => {
      await using rig = await MessagingGateway.create('messaging', { messagingToml });
      await rig.updateToTheEnd(8);
      expect(await installed(rig)).toEqual(one);
      expect(rig.side.requests.map(({ method }) => method)).toEqual(
        expect.arrayContaining(['things.activate', 'things.versions.firmware.get', 'things.versions.switch']),
      );
      // values have no messaging form
      const operations = new Set(rig.service.calls.map(({ operation }) => operation));
      expect(operations).toEqual(new Set(['setProperty']));
    },
  );

  const forms = [
    ['messaging', 'rest'],
    ['rest', 'messaging'],
  ] as const;
  test.each(howMuch<readonly (typeof forms)[number][]>(forms, [forms[0]]))(
    'asks by %s, and fetches firmware by %s, where that is configured',
    async (form, firmware) => {
      await using rig = await MessagingGateway.create(form, { messagingToml: `firmware_transport = "${firmware}"` });
      await rig.updateToTheEnd(8);
      expect(await installed(rig)).toEqual(one);
      const { side, service } = rig;
      const count = { rest: service.callsOf('firmware').length, messaging: side.requestsOf('firmware').length };
      expect(count).toEqual({ [form]: 0, [firmware]: 1 });
      const asked = { rest: service.callsOf('switchTo').length, messaging: side.requestsOf('switchTo').length };
      expect(asked).toEqual({ [form]: 1, [firmware]: 0 });
    },
  );

  test('rejects an image that is too large, and names the remedy', async () => {
    await using rig = await MessagingGateway.create('messaging', { messagingToml: 'max_message = "256KiB"' });
    const { exitCode, stderr } = await rig.gateway.run('--update-now');
    expect({ exitCode, stderr: stderr.replaceAll(/\s+/g, ' ') }).toMatchObject({
      exitCode: 77,
      stderr: expect.stringMatching(/0\.4 MiB, more than the 0\.3 MiB.*firmware_transport = "rest"/) as string,
    });
    await rig.configure('messaging', { messagingToml: 'max_message = "256KiB"\nfirmware_transport = "rest"' });
    await rig.updateToTheEnd(8);
    expect(await installed(rig)).toEqual(one);
  });
});

describe.each(howMuch([5, 4], [5]))('the whole update, with MQTT %i, succeeds', (protocolVersion) => {
  const steps = ['activate', 'targetVersion', 'firmware', 'currentVersion', 'switchTo'] as const;
  const messagingToml = `protocol_version = ${protocolVersion}`;

  test('although the connection is interrupted at each step', async () => {
    await using rig = await MessagingGateway.create('messaging', { messagingToml });
    await using link = await CuttableLink.open(rig.broker.port);
    await rig.configure('messaging', { messagingToml, brokerPort: link.port });
    for (const step of steps) {
      rig.side.spoilNext(step, (_request, text) => {
        link.cut();
        return [{ text }];
      });
    }
    await rig.updateToTheEnd(8);
    expect(await installed(rig)).toEqual(one);
  });

  testInFull('though the broker is restarted at each step', async () => {
    await using rig = await MessagingGateway.create('messaging', { messagingToml });
    for (const step of steps) {
      rig.side.spoilNext(step, async (_request, text) => {
        await rig.broker.restart();
        return [{ text }];
      });
    }
    await rig.updateToTheEnd(8);
    expect(await installed(rig)).toEqual(one);
  });

  testInFull('though the broker is killed at each step', async () => {
    await using rig = await MessagingGateway.create('messaging', { messagingToml });
    for (const step of steps) {
      rig.side.spoilNext(step, async () => {
        await rig.broker.restart('SIGKILL');
        await rig.side.listening();
        return [];
      });
    }
    // an activation whose reply is lost is left to the next time
    await rig.updateToTheEnd(8);
    expect(await installed(rig)).toEqual(one);
    expect(rig.service.world.things[0]?.activations).toBe(2);
  });

  testInFull('though the broker freezes for a while at each step', async () => {
    await using rig = await MessagingGateway.create('messaging', { messagingToml });
    for (const step of steps) {
      rig.side.spoilNext(step, (_request, text) => {
        rig.broker.freeze();
        setTimeout(() => rig.broker.thaw(), 400);
        return [{ text }];
      });
    }
    await rig.updateToTheEnd(8);
    expect(await installed(rig)).toEqual(one);
  });
});

testInFull('a gateway moves from one form to the other and back by configuration alone', async () => {
  await using rig = await MessagingGateway.create('rest');
  const { service, side, gateway } = rig;
  await rig.updateToTheEnd(8);
  expect(await installed(rig)).toEqual(one);
  expect(side.requests).toEqual([]);

  await rig.configure('messaging');
  service.world.targetVersionId = 'v2';
  const before = service.calls.length;
  expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
  gateway.boot();
  expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
  expect(await installed(rig)).toEqual(two);
  expect(service.calls.slice(before).every(({ operation }) => operation === 'setProperty')).toBe(true);

  await rig.configure('rest');
  const asked = side.requests.length;
  expect(await gateway.run('check')).toMatchObject({ exitCode: 0 });
  expect(side.requests).toHaveLength(asked);
  expect(service.world.things[0]?.activations).toBe(1);
});

test('a daemon moves from one form to the other and back when it reads its configuration again', async () => {
  await using rig = await MessagingGateway.create('rest', { splay: '1h' });
  const { service, side, gateway } = rig;
  service.world.targetVersionId = 'v0';
  const lines: string[] = [];
  const daemon = await gateway.startDaemon((line) => lines.push(line));
  const read = (): number => lines.filter((line) => line.includes('was read again')).length;
  expect(await gateway.run('check')).toMatchObject({ exitCode: 0 });
  expect([service.callsOf('targetVersion').length > 0, side.requests.length]).toEqual([true, 0]);
  await rig.configure('messaging', { splay: '1h' });
  daemon.kill('SIGHUP');
  await expect.poll(read, patience).toBe(1);
  expect(await gateway.run('check')).toMatchObject({ exitCode: 0 });
  expect(side.requestsOf('targetVersion').length).toBeGreaterThan(0);
  await rig.configure('rest', { splay: '1h' });
  daemon.kill('SIGHUP');
  await expect.poll(read, patience).toBe(2);
  const asked = side.requests.length;
  expect(await gateway.run('check')).toMatchObject({ exitCode: 0 });
  expect(side.requests).toHaveLength(asked);
  expect(service.world.things[0]?.activations).toBe(1);
  await stop(daemon);
});

describe('the daemon', () => {
  const present = 'status_topic = "gateway/status"\nwake_topic = "gateway/wake"';

  /** With all messages about the presence of the gateway. */
  async function start(options: FormOptions, form: Form = 'messaging') {
    await using opened = new AsyncDisposableStack();
    const rig = opened.use(await MessagingGateway.create(form, { messagingToml: present, ...options }));
    const said: unknown[] = [];
    await rig.side.listen('gateway/status', (text) => said.push(JSON.parse(text)));
    const lines: string[] = [];
    const daemon = await rig.gateway.startDaemon((line) => lines.push(line));
    await expect.poll(() => said, patience).toHaveLength(1);
    opened.move(); // the caller ends it
    return { rig, daemon, lines, said };
  }

  test('reports online, and offline when it ends or dies; a single command reports nothing', async () => {
    const { rig, daemon, said } = await start({});
    await using _ = rig;
    const online = { state: 'online', serialNumber: 'GW-0001', agentVersion: expect.any(String) as string };
    const offline = { ...online, state: 'offline' };
    await stop(daemon);
    expect(await rig.gateway.run('check')).toMatchObject({ exitCode: 0 });
    const again = await rig.gateway.startDaemon();
    await expect.poll(() => said, patience).toEqual([online, offline, online]);
    await stop(again, 'SIGKILL');
    await expect.poll(() => said, patience).toEqual([online, offline, online, offline]);
  });

  test.each(howMuch<readonly Form[]>(['rest', 'messaging'], ['rest']))(
    'is woken, at most once per splay, with transport = "%s"',
    async (form) => {
      const { rig, daemon, lines } = await start({ splay: '1h' }, form);
      await using _ = rig;
      const { side, service, gateway } = rig;
      service.world.targetVersionId = 'v0';
      const looked = form === 'rest' ? service.nextCall('targetVersion') : side.nextRequest('targetVersion');
      await side.publish('gateway/wake', 'now', true);
      await looked;
      for (let count = 0; count < 20; count += 1) await side.publish('gateway/wake', '');
      // the requested check, and the check that is due after the splay
      const asked = (): readonly string[] => lines.filter((line) => line.includes('update check requested over MQTT'));
      await expect.poll(asked, patience).toHaveLength(2);
      await expect.poll(() => lines.some((line) => line.includes('the check failed')), patience).toBe(true);
      expect(side.requestsOf('targetVersion').length + service.callsOf('targetVersion').length).toBe(1);
      const status = (await gateway.json('status')) as { readonly nextCheckAt: string };
      const dueInMs = Date.parse(status.nextCheckAt) - Date.now();
      expect(dueInMs).toBeGreaterThan(3_000_000);
      expect(dueInMs).toBeLessThanOrEqual(3_600_000);
      await stop(daemon);
      expect(asked()).toHaveLength(2);
    },
  );

  testInFull('is not woken by a message that the broker kept', async () => {
    const options = { messagingToml: `${present}\nprotocol_version = 4`, splay: '1h' };
    const { rig, daemon } = await start(options);
    await using _ = rig;
    await rig.side.publish('gateway/wake', 'long ago', true);
    await stop(daemon);
    const lines: string[] = [];
    const again = await rig.gateway.startDaemon((line) => lines.push(line));
    await expect
      .poll(async () => rig.gateway.json('status'), patience)
      .toMatchObject({ service: { broker: { state: 'connected', ignored: { retained: 1 } } } });
    await stop(again);
    expect(lines.filter((line) => line.includes('update check requested over MQTT'))).toEqual([]);
  });

  testInFull('counts in its status what it ignored', async () => {
    const { rig, daemon } = await start({});
    await using _ = rig;
    await rig.side.publish(rig.side.replyTopic, '{"jsonrpc":"2.0","id":"forged","result":1}');
    await expect
      .poll(async () => rig.gateway.json('status'), patience)
      .toMatchObject({ service: { broker: { state: 'connected', ignored: { unknown: 1 } } } });
    expect((await rig.gateway.run('status')).stdout).toMatch(/messages ignored: 1 unknown/);
    await stop(daemon);
  });

  test('names in its status why the broker cannot be reached: gone, not authorised, silent', async () => {
    const { rig, daemon } = await start({ messagingToml: `${present}\nkeep_alive = "5s"` });
    await using _ = rig;
    const { broker, gateway, passwordFile } = rig;
    const problem = async (): Promise<string | undefined> => {
      // a request ends the pause before the next attempt
      await gateway.run('check');
      const { service } = (await gateway.json('status')) as StatusReport;
      return service.broker?.problem?.code ?? service.broker?.state;
    };
    // a running activation would wait a minute for its reply
    expect(await gateway.run('check')).toMatchObject({ exitCode: 0 });
    await broker.stop();
    await expect.poll(problem, rarely).toBe('broker-refused');
    expect((await gateway.run('status')).stdout).toMatch(/refused.*\(broker-refused\)/s);
    const password = await readFile(passwordFile);
    await writeFile(passwordFile, 'forgotten');
    await broker.start();
    await expect.poll(problem, rarely).toBe('broker-not-authorized');
    await writeFile(passwordFile, password);
    await expect.poll(problem, rarely).toBe('connected');
    broker.freeze();
    const idle = async (): Promise<unknown> => gateway.json('status');
    await expect.poll(idle, rarely).toMatchObject({ service: { broker: { problem: { code: 'broker-timeout' } } } });
    broker.thaw();
    await expect.poll(problem, rarely).toBe('connected');
    await stop(daemon);
  });
});
