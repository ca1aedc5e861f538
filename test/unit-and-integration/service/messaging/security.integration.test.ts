import { readFile, writeFile } from 'node:fs/promises';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { MessagingSettings } from '../../../../src/service/messaging/settings.ts';
import { operations } from '../../../../src/service/operations.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../../fakes/service/firmware-text.ts';
import { MessagingSide } from '../../../fakes/service/messaging.ts';
import { World } from '../../../fakes/service/world.ts';
import { Authority } from '../rest/certificates.ts';
import { readAll } from '../rest/rest-rig.ts';
import { messagingRig, messagingSettings } from './messaging-rig.ts';
import { Mosquitto } from './mosquitto.ts';

const { signal } = new AbortController();
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** The gateway may do what the messaging form needs; and a mute may only listen. */
const rules = `
user service
topic readwrite #

user gateway
topic write v1.json
topic write v1.a1b2.json
topic read v1.a1b2.reply.json
topic write gateways/status

user mute
topic read v1.a1b2.reply.json
`;

const firmware = randomContent(5_000_000);

/** For requests without a reply. */
const soon = { ...messagingSettings('mqtts://any').deadlines, requestMs: 2_000, unheardMs: 100 };

let authority: Authority;
let broker: Mosquitto;
let service: MessagingSide;
let login: Pick<MessagingSettings, 'username' | 'passwordFile' | 'tls'>;

beforeAll(async () => {
  authority = await Authority.create();
  const certificate = await authority.issue('broker', 'IP:127.0.0.1');
  broker = await Mosquitto.start({
    tls: { caFile: authority.caFile, ...certificate },
    users: { service: 'for the service', gateway: 'sesame', mute: 'quiet' },
    rules,
  });
  const world = new World();
  world.addVersion({ id: '1', name: 'one', firmware });
  const ca = await readFile(authority.caFile, 'utf8');
  const client = { username: 'service', password: 'for the service', ca };
  service = await MessagingSide.start(world, { url: broker.url, client });
  const passwordFile = await authority.write('password', 'sesame\n');
  login = { username: 'gateway', passwordFile, tls: { caFile: authority.caFile } };
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await broker[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
});

async function activate(others: Partial<MessagingSettings> = {}): Promise<unknown> {
  await using rig = messagingRig(broker.url, { ...login, ...others });
  return await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
}

describe.each([5, 4] as const)(
  'a broker with TLS, passwords and rules, MQTT protocol version %i',
  (protocolVersion) => {
    test('lets in who may come', async () => {
      expect(await activate({ protocolVersion })).toMatchObject({ thingId: 'thing-1' });
    });

    test('is counted with the overhead of TLS', async () => {
      await using rig = messagingRig(broker.url, { ...login, protocolVersion });
      const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
      const { byteLength } = await readAll(text.chunks);
      const { sentBytes, receivedBytes } = rig.traffic.report.sinceStart;
      expect(receivedBytes / byteLength).toBeGreaterThan(1.001);
      expect(receivedBytes / byteLength).toBeLessThan(1.02);
      expect(sentBytes).toBeGreaterThan(1_000);
      expect(sentBytes).toBeLessThan(50_000);
    });

    test('rejects an untrusted broker', async () => {
      const stranger = await authority.write('none.pem', '-----BEGIN nothing-----\n');
      for (const tls of [{}, { caFile: stranger }]) {
        await expect(activate({ protocolVersion, tls })).rejects.toMatchObject({
          code: 'tls-unknown-ca',
          advice: matching(/service\.messaging\.ca_file/),
        });
      }
    });

    test('whose certificate is for another host is not spoken to', async () => {
      const url = broker.url.replace('127.0.0.1', 'localhost');
      await expect(activate({ protocolVersion, url })).rejects.toMatchObject({
        code: 'tls-wrong-host',
        advice: matching(/service\.messaging\.url/),
      });
    });

    test('is not asked without TLS', async () => {
      const url = broker.url.replace('mqtts', 'mqtt');
      await expect(activate({ protocolVersion, url })).rejects.toMatchObject({ code: 'broker-lost' });
    });

    test('names a wrong password, and takes the right one as soon as it is there', async () => {
      const passwordFile = await authority.write('renewed', 'wrong');
      await using rig = messagingRig(broker.url, { ...login, protocolVersion, passwordFile });
      await expect(rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).rejects.toMatchObject({
        code: 'broker-not-authorized',
        exit: 'refused',
        remedy: 'retry',
        advice: matching(/password_file/),
      });
      expect(rig.transport.report.problem?.code).toBe('broker-not-authorized');
      await writeFile(passwordFile, 'sesame');
      expect(await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).toMatchObject({
        thingId: 'thing-1',
      });
    });

    test('requires a user name', async () => {
      const nobody = { username: undefined, passwordFile: undefined };
      await expect(activate({ protocolVersion, ...nobody })).rejects.toMatchObject({ code: 'broker-not-authorized' });
    });

    test('names the topic that may not be written, if the broker reports it', async () => {
      const passwordFile = await authority.write('mute', 'quiet');
      const call = activate({ protocolVersion, username: 'mute', passwordFile, deadlines: soon });
      // MQTT 3.1.1 has no way to say it
      const told = { code: 'broker-not-authorized', message: matching(/does not take v1\.json/) };
      await expect(call).rejects.toMatchObject(protocolVersion === 5 ? told : { code: 'activation-timeout' });
    });
  },
);

test('a status topic that may not be written is reported, and prevents no request', async () => {
  const { topics } = messagingSettings(broker.url);
  await using rig = messagingRig(broker.url, { ...login, topics: { ...topics, status: 'gateways/of-others' } });
  rig.transport.attend({ onWake: () => {}, onProgress: () => {} });
  expect(await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).toMatchObject({
    thingId: 'thing-1',
  });
  expect(rig.transport.report).toMatchObject({
    state: 'connected',
    problem: { code: 'broker-not-authorized', message: matching(/does not take gateways\/of-others/) },
  });
});

test('a firmware image arrives complete over TLS', async () => {
  await using rig = messagingRig(broker.url, login);
  const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
  await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
  const expected = Buffer.concat([...new FirmwareText(firmware).read()]);
  expect((await readAll(text.chunks)).equals(expected)).toBe(true);
});

test('gives back the memory of a large message when its reader has finished', async () => {
  await using rig = messagingRig(broker.url, login);
  const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
  const text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
  const chunks: Uint8Array[] = await Array.fromAsync(text.chunks);
  expect(chunks.map(({ byteLength }) => byteLength)).not.toContain(0);
  await text[Symbol.asyncDispose]();
  expect(new Set(chunks.map(({ byteLength }) => byteLength))).toEqual(new Set([0]));
});

test('an unreadable password file is named, and its content is never shown', async () => {
  const passwordFile = '/nowhere/password';
  await expect(activate({ passwordFile })).rejects.toMatchObject({
    code: 'broker-password',
    remedy: 'give-up',
    exit: 'configuration',
    message: matching(/\/nowhere\/password/),
  });
  const wrong = await authority.write('secret', 'a-secret-word');
  await using rig = messagingRig(broker.url, { ...login, passwordFile: wrong });
  const error: unknown = await rig.transport
    .call(operations.activate, { serialNumber: 'GW-1' }, signal)
    .catch((reason: unknown) => reason);
  const told = JSON.stringify([rig.log.lines, error, String(error), rig.transport.report]);
  expect(told).not.toContain('a-secret-word');
});

test('certificates that cannot be read name the settings of the broker', async () => {
  const { tls } = messagingSettings(broker.url, { tls: { caFile: '/nowhere/ca.pem' } });
  await expect(activate({ tls })).rejects.toMatchObject({
    code: 'tls-files-invalid',
    advice: matching(/\[service\.messaging\]/),
  });
});

test('a client certificate opens the door where one is wanted', async () => {
  const certificate = await authority.issue('strict', 'IP:127.0.0.1');
  await using strict = await Mosquitto.start({
    tls: { caFile: authority.caFile, ...certificate, clientCertificates: true },
  });
  const { certFile, keyFile } = await authority.issue('gateway', 'DNS:gateway');
  const tls = { caFile: authority.caFile, clientCertificateFile: certFile, clientKeyFile: keyFile };
  await using without = messagingRig(strict.url, { tls: { caFile: authority.caFile } });
  await expect(without.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).rejects.toMatchObject({
    code: 'tls-client-certificate',
  });
  await using rig = messagingRig(strict.url, { tls, deadlines: soon });
  // no subscriber, but a permitted topic
  await expect(rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)).rejects.toMatchObject({
    code: 'reply-timeout',
  });
});
