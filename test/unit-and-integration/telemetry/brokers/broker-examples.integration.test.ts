import { readFileSync } from 'node:fs';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import type { SourceSettings } from '../../../../src/telemetry/settings.ts';
import { mqttSource, publish } from '../../../../src/telemetry/sources/mqtt.ts';
import type { MqttSettings } from '../../../../src/telemetry/sources/mqtt.ts';
import { Watch } from '../../../../src/telemetry/watch.ts';
import { configExamplePath } from '../../../../systemd/pages/config-example.ts';
import { noLogin } from '../../mqtt/no-login.ts';
import { Mosquitto } from '../../service/messaging/mosquitto.ts';
import type { Certificate } from '../../service/rest/certificates.ts';
import { Authority } from '../../service/rest/certificates.ts';
import { FakeValues } from '../fake-values.ts';

const example = readFileSync(configExamplePath, 'utf8');
const deadline = (): AbortSignal => AbortSignal.timeout(60_000);

let authority: Authority;
let certificate: Certificate;
let passwordFile: string;

beforeAll(async () => {
  authority = await Authority.create();
  certificate = await authority.issue('broker', 'IP:127.0.0.1');
  passwordFile = await authority.write('mqtt-password', 'sesame\n');
});
afterAll(async () => {
  await authority[Symbol.asyncDispose]();
});

/** Returns the configuration with an example of the installed file in force, for a broker of the test. */
function withExample(table: string, key: string, { url }: Mosquitto, login = ''): Config {
  const text = new RegExp(`^## Or: (${key} = \\{ kind = "mqtt".*)$`, 'm').exec(example)?.[1] ?? '';
  const here = text
    .replace('mqtts://127.0.0.1', url)
    .replace('/etc/thing-agent/broker-ca.pem', authority.caFile)
    .replace('/etc/thing-agent/mqtt-password', passwordFile)
    .replace(/(?=, topic)/, login);
  return resolveConfig(parseConfig('config.toml', `${example}\n${table}\nevery = "10s"\n${here}\n`));
}

function sensorSource(broker: Mosquitto, login = ''): SourceSettings & { readonly kind: 'mqtt' } {
  const { measurements } = withExample('[[sensors]]\nevent = "temperature"', 'source', broker, login);
  const source = measurements.at(-1)?.source;
  if (source?.kind !== 'mqtt') throw new Error('the example is gone');
  return source;
}

/** Returns the first reading that comes after `onConnected`. */
async function firstReading(
  settings: Omit<MqttSettings, 'retained'>,
  onConnected = async (): Promise<void> => {},
): Promise<unknown> {
  const end = new AbortController();
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const take = (read: () => unknown): void => resolve(read());
  const connected = (): void => void onConnected().catch(reject);
  const intake = { connected, take, drop: () => {}, rest: () => undefined };
  const run = mqttSource({ ...settings, retained: 'once' }).run(intake, AbortSignal.any([end.signal, deadline()]));
  const reading = await Promise.race([promise, run]);
  end.abort(new Error('the test has it'));
  await run.catch(() => {});
  return reading;
}

test('the example of a sensor reads from a broker with a certificate of its own authority', async () => {
  await using broker = await Mosquitto.start({ tls: { caFile: authority.caFile, ...certificate } });
  const source = sensorSource(broker);
  const send = async (): Promise<void> => publish({ ...source, topic: 'room/1/temperature' }, '21.5', deadline());
  expect(await firstReading(source, send)).toBe(21.5);
});

test('a broker that wants a client certificate gets it', async () => {
  await using broker = await Mosquitto.start({
    tls: { caFile: authority.caFile, ...certificate, clientCertificates: true },
  });
  const { certFile, keyFile } = await authority.issue('gateway', 'DNS:gateway');
  const login = `, client_certificate_file = "${certFile}", client_key_file = "${keyFile}"`;
  const source = sensorSource(broker, login);
  const send = async (): Promise<void> => publish({ ...source, topic: 'room/1/temperature' }, '21.5', deadline());
  expect(await firstReading(source, send)).toBe(21.5);
  await expect(firstReading(sensorSource(broker))).rejects.toMatchObject({ code: 'source-failed' });
});

test('the example of a watch publishes to a broker that wants a password', async () => {
  await using broker = await Mosquitto.start({
    tls: { caFile: authority.caFile, ...certificate },
    users: { gw: 'sesame' },
  });
  const [settings] = withExample('[[watch]]\nid = "limits"', 'output', broker).watches;
  if (settings?.output.kind !== 'mqtt') throw new Error('the example is gone');
  const service = new FakeValues();
  service.properties.set('limits', { high: 30 });
  const watch = new Watch({ watch: settings, service, clock: systemClock, log: silentLog });
  await watch.poll(deadline());
  expect(watch.figures.lastError).toBeUndefined();
  expect(await firstReading(settings.output)).toEqual({ high: 30 });
});

// Regression: "self-signed certificate in certificate chain", and no setting to change that
test('an unknown authority is named with the setting to change', async () => {
  await using broker = await Mosquitto.start({ tls: { caFile: authority.caFile, ...certificate } });
  const reading = firstReading({ ...noLogin, url: broker.url, topic: 't' });
  await expect(reading).rejects.toMatchObject({
    code: 'source-failed',
    message: expect.stringMatching(/self-signed certificate in certificate chain; set ca_file/) as string,
  });
});
