import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import type { FaultRule } from '../../fakes/service/faults.ts';
import { howMuch } from '../../full.ts';
import { Day } from './day.ts';
import { MessagingDay } from './messaging-day.ts';

const installNow = '--update-now --no-reboot --force';
const cutFirmware: FaultRule = { operation: 'firmware', fault: { kind: 'truncate', afterBytes: 60_000 } };

/** One of each kind that the stand-in knows, spread over the calls. */
const faults: readonly (readonly [command: string, ...rules: FaultRule[]])[] = [
  ['check', { operation: 'targetVersion', fault: { kind: 'status', status: 503, retryAfter: 1, body: 'busy' } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'status', status: 404 } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'body', text: '{"id":7}' } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'redirect', location: 'https://x.example/?token=t0ken' } }],
  ['property get p', { operation: 'property', fault: { kind: 'huge', bytes: 3_000_000 } }],
  ['property get p', { operation: 'property', fault: { kind: 'reset' } }],
  ['property set p 1', { operation: 'setProperty', fault: { kind: 'truncate' } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'silence', afterBytes: 3 } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'wrong-length', by: 9 } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'not-http', text: 'SSH-2.0-OpenSSH\r\n' } }],
  ['check', { operation: 'targetVersion', fault: { kind: 'early-hints' } }],
  ['property get p', { operation: 'property', fault: { kind: 'drip', bytes: 1, everyMs: 5 } }],
  ['property get p', { operation: 'property', fault: { kind: 'drop-key' } }],
  [installNow, cutFirmware, { operation: 'firmware', fault: { kind: 'wrong-range', firstBy: 1 } }],
  [installNow, cutFirmware, { operation: 'firmware', fault: { kind: 'ignore-range' } }],
  [installNow, cutFirmware, { operation: 'firmware', fault: { kind: 'change-firmware', at: 50_000 } }],
];

test('no key and no password is in any log, error, status, answer, file or call', { timeout: 600_000 }, async () => {
  await using day = await Day.begin();
  for (const words of ['activate', 'doctor', 'status --json', 'check', 'property set p 1', 'datapoint send e 1']) {
    await day.type(words);
  }
  for (const words of ['config show', 'config show --json', 'config check', 'config schema', 'sensors', 'sensors e']) {
    await day.type(words);
  }
  await day.report();
  await day.withDaemon(async () => day.gateway.rebootRequest(AbortSignal.timeout(60_000)));
  day.gateway.boot();
  await day.withDaemon(async (logged) => failures(day, logged));
  await misfortunes(day);
  day.listenAround();

  expect(day.ear.leaks).toEqual([]);
  expect(day.ear.secrets).toEqual(expect.arrayContaining(['an API key', 'the password of the broker']));
  const proofs = [
    'thing-1',
    'Security log',
    '407',
    'service-redirected',
    'broker-refused',
    'artifact-unsigned',
    'identity.json.damaged',
    'unexpected failure: nothing behind http://',
    'config.toml:3',
    'printed here: ********',
  ];
  expect(proofs.filter((proof) => day.ear.placesOf(proof).length === 0)).toEqual([]);
});

test('in messaging form, neither', { timeout: 600_000 }, async () => {
  const messagingToml = 'status_topic = "gateway/status"\nwake_topic = "gateway/wake"\n[log]\nlevel = "debug"';
  await using day = await MessagingDay.begin({ messagingToml });
  const { rig, ear } = day;
  await rig.side.listen('gateway/status', (text) => ear.hear('the status topic', text));
  await indiscreetReplies(day);
  for (const words of ['activate', 'status', 'doctor', 'config show', 'property set p 1']) await day.type(words);
  await day.withDaemon(async () => {
    await rig.gateway.rebootRequest(AbortSignal.timeout(60_000));
    await day.type('--update-now');
  });
  rig.gateway.boot();
  await day.withDaemon(async () => brokenReplies(day));
  await writeFile(rig.passwordFile, 'wr0ng-w0rd');
  ear.keep('a wrong password of the broker', 'wr0ng-w0rd');
  for (const words of ['check', 'doctor']) await day.type(words);
  await rig.broker.stop();
  for (const words of ['check', 'doctor --json']) await day.type(words);
  day.listenAround();

  expect(ear.leaks).toEqual([]);
  expect(ear.secrets).toEqual(expect.arrayContaining(['an API key', 'a key in a broken reply']));
  const proofs = ['broker-not-authorized', 'service-rejected', 'reply-malformed', 'is not welcome', '"online"'];
  expect(proofs.filter((proof) => ear.placesOf(proof).length === 0)).toEqual([]);
});

/** Replies to the activation that have a key, and cannot be used. */
async function indiscreetReplies(day: MessagingDay): Promise<void> {
  day.ear.keep('a key in a broken reply', 'new-key-1');
  const results = ['{"thingId":7,"apiKey":"new-key-1"}', '"new-key-1', '{"thingId":"t","apiKey":"new-key-1\\n"}'];
  for (const result of results) {
    day.rig.side.spoilNext('activate', ({ id }) => [{ text: `{"jsonrpc":"2.0","id":"${id}","result":${result}}` }]);
    await day.type('activate');
  }
}

/** Replies to the other requests: errors that repeat the key, and invalid replies. */
async function brokenReplies(day: MessagingDay): Promise<void> {
  const { side, service } = day.rig;
  const key = service.world.things[0]?.apiKey ?? '';
  const message = `the key ${key} is not welcome`;
  const ends = [
    `"error":{"code":400,"message":"${message}","data":"${key}"}`,
    `"error":{"code":401,"message":"${message}"}`,
    `"result":{"id":7,"name":"${key}"}`,
    `"result":"${key}"`,
    `"result":${key}`,
  ];
  for (const end of ends) {
    side.spoilNext('targetVersion', ({ id }) => [{ text: `{"jsonrpc":"2.0","id":"${id}",${end}}` }]);
    await day.type('check');
  }
}

/** Failures of the service and of the broker, while the daemon runs. */
async function failures(day: Day, logged: (words: string) => Promise<void>): Promise<void> {
  const { service, ear, broker } = day;
  ear.keep('the token of an address', 't0ken');
  await day.type('--update-now --json');
  service.world.targetVersionId = 'unsigned';
  await day.type('--update-now');
  service.world.targetVersionId = 'v2';
  for (const [words, ...rules] of howMuch(faults, faults.slice(0, -2))) {
    for (const rule of rules) service.fail(rule);
    await day.type(words);
    service.clearFaults();
    if (words === installNow) await day.type('rollback');
  }
  await broker.stop();
  await logged('broker-refused');
  for (const words of ['status', 'doctor']) await day.type(words);
  await day.report();
}

/** Errors of an operator, and forbidden replies of a service. */
async function misfortunes(day: Day): Promise<void> {
  await wrongProxies(day);
  await indiscreetService(day);
  await damagedIdentity(day);
  await secretsInTheConfiguration(day);
  await mixedUpCertificates(day);
}

async function wrongProxies(day: Day): Promise<void> {
  day.ear.keep('the wrong password of the proxy', 'wr0ng-w0rd');
  const proxies = [
    'http://agent:wr0ng-w0rd@127.0.0.1:9',
    'http://agent:wr0ng-w0rd@[nowhere',
    day.proxyWith('wr0ng-w0rd'),
  ];
  const crash = `--import=${join(import.meta.dirname, 'crash-hook.ts')}`;
  await day.type('check', { NODE_OPTIONS: crash });
  for (const proxy of proxies) await day.type('check', { HTTPS_PROXY: proxy, https_proxy: proxy });
}

/** It repeats the key in a refusal, and breaks the replies that have a new one. */
async function indiscreetService(day: Day): Promise<void> {
  const { service, ear } = day;
  const key = service.world.things[0]?.apiKey ?? '';
  const body = `the key ${key} is not welcome`;
  service.fail({ operation: 'targetVersion', fault: { kind: 'status', status: 400, body } });
  await day.type('check');
  ear.keep('a key in a broken reply', 'new-key-1');
  for (const text of ['{"thingId":7,"apiKey":"new-key-1"}', 'new-key-1 {', '{"thingId":"t","apiKey":"new-key-1\\n"}']) {
    service.fail({ operation: 'activate', fault: { kind: 'body', text } });
  }
  await day.type('activate');
}

async function damagedIdentity(day: Day): Promise<void> {
  const path = join(day.gateway.directory, 'state/identity.json');
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replace('"apiKey": "', '"apiKey" "'));
  await day.report();
  await day.type('check');
  await day.report();
}

/** Writes a secret in the wrong place, and breaks its line. */
async function secretsInTheConfiguration(day: Day): Promise<void> {
  day.ear.keep('a password in the configuration', 'h1dden-w0rd');
  const lines = ['[service.messaging]\npassword = "h1dden-w0rd"', 'password = "h1dden-w0rd'];
  for (const extraToml of lines) {
    await day.configure({ extraToml, serviceToml: '' });
    for (const words of ['config check', 'status', 'config show']) await day.type(words);
    await day.report('h1dden-w0rd');
  }
  for (const serviceUrl of ['https://agent:h1dden-w0rd@127.0.0.1:9', 'https://127.0.0.1:9/?key=h1dden-w0rd']) {
    await day.configure({ serviceUrl });
    for (const words of ['config check', 'config show', 'status', 'status --json', 'doctor']) await day.type(words);
    await day.report('h1dden-w0rd');
  }
}

async function mixedUpCertificates(day: Day): Promise<void> {
  const { certFile, keyFile, key } = await day.authority.issue('other', 'DNS:other');
  day.ear.keepPem('the private key of another certificate', key);
  const files = [`ca_file = "${keyFile}"`, `client_certificate_file = "${keyFile}"`, `client_key_file = "${certFile}"`];
  await day.configure({ serviceToml: files.join('\n') });
  for (const words of ['check', 'doctor']) await day.type(words);
}
