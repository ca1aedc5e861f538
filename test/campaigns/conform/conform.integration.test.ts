import { execFile } from 'node:child_process';

import { describe, expect, test } from 'vitest';

import type { FaultRule, Operation } from '../../fakes/service/faults.ts';
import { randomContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { testInFull } from '../../full-run.ts';
import { conform, render, rules } from './conform.ts';
import type { ConformOptions, Result } from './conform.ts';

async function startService(bytes = 200_000): Promise<StandIn> {
  const firmware = randomContent(bytes);
  const versions = ['1', '2'].map((id) => ({ id, name: `release ${id}`, firmware }));
  return startStandIn({ versions, updates: { '1': ['2'] } });
}

async function resultsOf(url: string, choice: Partial<ConformOptions> = {}): Promise<readonly Result[]> {
  const ids = { serialNumber: 'GW-1', propertyId: 'p', eventId: 'e', switchToId: '2' };
  return Array.fromAsync(conform({ url, ...ids, timeoutMs: 20_000, connections: 0, ...choice }));
}

function found(results: readonly Result[]): readonly string[] {
  return results.filter(({ verdict }) => verdict !== 'pass').map(({ rule, verdict }) => `${verdict} ${rule}`);
}

type Break = (service: StandIn) => void;

function strike(operation: Operation, fault: FaultRule['fault'], others: Partial<FaultRule> = {}): Break {
  return (service) => service.fail({ operation, fault, ...others });
}

const always = { times: 'always' } as const;
const json = (value: unknown) => ({ kind: 'body', text: JSON.stringify(value) }) as const;
const status = (code: number) => ({ kind: 'status', status: code }) as const;
const version = { id: '1', name: 'one' };

/** Ways to break each rule, each with the first finding. */
const breaks: readonly (readonly [string, string, Break])[] = [
  ['failure activation', 'has no key', strike('activate', json({ thingId: 'thing-1' }), always)],
  ['failure activation', 'has no thing ID', strike('activate', json({ apiKey: 'key-0123456789' }), always)],
  ['failure activation', 'is refused', strike('activate', status(403), always)],
  [
    'warning activation',
    'is answered 201',
    strike('activate', { ...json({ thingId: 'thing-1', apiKey: 'k' }), status: 201 }),
  ],
  [
    'failure activation-repeated',
    'makes another thing',
    strike('activate', json({ thingId: 'thing-2', apiKey: 'k' }), { skip: 1 }),
  ],
  [
    'failure activation-repeated',
    'returns the same key',
    strike('activate', json({ thingId: 'thing-1', apiKey: 'k' }), always),
  ],
  ['failure current', 'is an array', strike('currentVersion', json([version]), always)],
  ['failure current', 'has no name', strike('currentVersion', json({ id: '1' }), always)],
  ['failure target', 'is a web page', strike('targetVersion', { kind: 'page' }, always)],
  ['failure target', 'has a number for an ID', strike('targetVersion', json({ id: 1, name: 'one' }), always)],
  ['failure updates', 'are one object', strike('updates', json(version), always)],
  ['failure updates', 'are null', strike('updates', json(null), always)],
  ['failure switch', 'is refused', strike('switchTo', status(400))],
  ['warning switch', 'is answered 200', strike('switchTo', status(200))],
  ['failure switch-repeated', 'is a conflict', strike('switchTo', status(409), { skip: 2 })],
  ['failure switch-kept', 'has no effect', strike('currentVersion', json({ id: '2', name: 'two' }), { skip: 1 })],
  ['failure firmware-text', 'is an object', strike('firmware', json({ firmware: 'AAAA' }), always)],
  ['failure firmware-text', 'is no encoding', strike('firmware', json('<firmware>'), always)],
  ['failure firmware-text', 'has something behind it', strike('firmware', { kind: 'body', text: '"AAAA" "' }, always)],
  ['failure firmware-text', 'is cut', strike('firmware', { kind: 'truncate', afterBytes: 1000 })],
  ['failure firmware-text', 'is longer than announced', strike('firmware', { kind: 'wrong-length', by: -10 })],
  ['warning firmware-length', 'is missing', (service) => service.behave({ contentLength: false })],
  ['warning firmware-etag', 'is weak', (service) => service.behave({ etag: 'weak' })],
  ['warning firmware-etag', 'is missing', (service) => service.behave({ etag: 'none' })],
  ['warning firmware-range', 'is ignored', (service) => service.behave({ ranges: false })],
  ['warning firmware-range', 'with another ETag', (service) => service.behave({ etag: 'changing', ranges: false })],
  [
    'failure firmware-range',
    'begins elsewhere',
    strike('firmware', { kind: 'wrong-range', firstBy: 1 }, { ranged: true }),
  ],
  [
    'failure firmware-range',
    'is of another text',
    strike('firmware', { kind: 'change-firmware', at: 199_999, keepEtag: true }, { ranged: true }),
  ],
  ['failure firmware-range', 'is refused', strike('firmware', status(400), { ranged: true })],
  [
    'failure firmware-if-range',
    'is ignored',
    strike('firmware', { ...json('AAAA'), status: 206 }, { ranged: true, skip: 1 }),
  ],
  ['failure unknown-thing', 'has a version', strike('currentVersion', json(version), { skip: 2 })],
  ['failure unknown-thing', 'is an error of the service', strike('currentVersion', status(500), { skip: 2 })],
  ['failure unknown-version', 'has a firmware', strike('firmware', json('AAAA'), { skip: 3 })],
  ['warning unknown-version', 'looks like an invalid key', strike('firmware', status(401), { skip: 3 })],
  ['failure unknown-version-switch', 'is accepted', strike('switchTo', status(204), { skip: 3 })],
  ['failure property-json', 'is a conflict', strike('setProperty', status(409))],
  ['warning property-json', 'is refused', strike('setProperty', status(415))],
  ['failure property-json', 'has no value afterwards', strike('property', status(405))],
  ['failure property-json', 'comes back as text', strike('property', json('{"conform":true}'))],
  ['failure property-number', 'comes back as text', strike('property', json('23.5'), { skip: 1 })],
  ['warning property-text', 'must be a JSON string', strike('setProperty', status(400), { skip: 2 })],
  ['warning property-text', 'is refused', strike('setProperty', status(400), { skip: 2, times: 2 })],
  ['warning property-text', 'needs a property that does not exist', strike('setProperty', status(404), { skip: 2 })],
  ['failure datapoints', 'are refused', strike('postDatapoints', status(422))],
  ['warning datapoints', 'are answered 202', strike('postDatapoints', status(202))],
  ['warning key-required', 'is not', strike('property', json('open'), { skip: 3 })],
  ['warning key-required', 'is not for a value', strike('setProperty', status(204), { skip: 3 })],
  ['warning key-required', 'is not for datapoints', strike('postDatapoints', status(204), { skip: 1 })],
  ['failure key-dropped', 'may set a value', strike('setProperty', status(204), { skip: 4 })],
  ['failure key-dropped', 'may post datapoints', strike('postDatapoints', status(204), { skip: 2 })],
  ['failure key-dropped', 'is still valid', strike('property', json('open'), { skip: 4 })],
  ['failure key-dropped', 'is answered 404', strike('property', status(404), { skip: 4 })],
  ['warning target-pending', 'is another version', (service) => (service.world.targetVersionId = '2')],
  ['failure switch-to', 'has no effect', strike('switchTo', status(204), { skip: 4 })],
  ['failure switch-to', 'is refused', strike('switchTo', status(400), { skip: 4 })],
  ['failure switch-to', 'does not reach the target', strike('targetVersion', json(version), { skip: 1 })],
  ['failure switch-to', 'is undone by an activation', strike('currentVersion', json(version), { skip: 4 })],
  ['failure switch-to', 'cannot be undone', strike('switchTo', status(204), { skip: 5 })],
];

describe('a service', () => {
  test('passes all rules if it is the simulator', async () => {
    await using service = await startService();
    const results = await resultsOf(service.url);
    expect(found(results)).toEqual([]);
    expect(results.map(({ rule }) => rule)).toEqual(rules.map(({ id }) => id));
    expect(service.world.things).toHaveLength(1);
    expect(service.world.things[0]?.currentVersionId).toBe('1');
  });

  test.each(breaks)('gets a %s if it %s', async (expected, _how, spoil) => {
    await using service = await startService();
    spoil(service);
    const results = await resultsOf(service.url);
    expect(found(results)[0]).toBe(expected);
    const first = results.find(({ verdict }) => verdict !== 'pass');
    expect(first?.why).not.toBe('');
    expect(first?.exchanges).not.toEqual([]);
    expect(JSON.stringify(results)).not.toMatch(/key-[0-9a-f]{8}/);
  });

  test('gets a warning about a target that never changes', async () => {
    await using service = await startService();
    service.world.targetVersionId = '2';
    const results = await resultsOf(service.url);
    expect(found(results)).toEqual(['warning target-pending', 'warning switch-to']);
    expect(results.at(-1)?.why).toContain('the target version is 2 after a switch to 2 and back');
    expect(found(await resultsOf(service.url, { switchToId: '1' })).at(-1)).toBe('warning switch-to');
    expect(service.world.things[0]?.currentVersionId).toBe('1');
  });

  test('gets a warning that names the option if no switch was tested', async () => {
    await using service = await startService();
    const results = await resultsOf(service.url, { switchToId: undefined });
    expect(found(results)).toEqual(['warning switch-to']);
    expect(results.at(-1)?.why).toMatch(/^not tested: .*--switch-to/);
  });

  test('fails if it refuses the values of properties that were named for them', async () => {
    await using service = await startService();
    service.fail({ operation: 'setProperty', fault: status(400), times: 2 });
    const results = await resultsOf(service.url, { propertyIds: { json: 'json' } });
    expect(found(results)).toEqual(['failure property-json', 'warning property-number']);
    expect(results.find(({ rule }) => rule === 'property-number')?.why).toContain('--property-number');
  });

  test('fails if no property accepts any value', async () => {
    await using service = await startService();
    service.fail({ operation: 'setProperty', fault: status(400), times: 'always' });
    const names = ['warning property-json', 'warning property-number', 'failure property-text'];
    expect(found(await resultsOf(service.url))).toEqual(names);
  });

  test('is tested for dropped keys without a property, and without an event', async () => {
    await using service = await startService();
    service.fail({ operation: 'setProperty', fault: status(404), times: 'always' });
    service.fail({ operation: 'postDatapoints', fault: status(204), skip: 2 });
    expect(found(await resultsOf(service.url)).at(-1)).toBe('failure key-dropped');
    service.clearFaults();
    service.behave({ keyRequired: 'everything' });
    for (const operation of ['setProperty', 'postDatapoints'] as const)
      service.fail({ operation, fault: status(404), times: 'always' });
    service.fail({ operation: 'currentVersion', fault: json(version), skip: 4 });
    expect(found(await resultsOf(service.url)).at(-1)).toBe('failure key-dropped');
  });

  test('gets another label for an expectation of the agent than for a rule of the interface', async () => {
    await using service = await startService();
    service.fail({ operation: 'firmware', fault: json('<firmware>'), times: 'always' });
    service.fail({ operation: 'targetVersion', fault: json([version]), times: 'always' });
    const results = await resultsOf(service.url, { versionId: '1' });
    const labelOf = (rule: string) => results.filter((result) => result.rule === rule).map(render)[0];
    expect(labelOf('firmware-text')).toContain('(not shown by the interface; the agent accepts base64, ');
    expect(labelOf('target')).toContain('(stated by the interface)');
  });

  test('fails with the origin of a version that does not exist', async () => {
    await using service = await startService();
    const results = await resultsOf(service.url, { versionId: 'nope' });
    expect(results.find(({ verdict }) => verdict === 'failure')?.why).toContain('nope comes from --version');
    const switched = await resultsOf(service.url, { switchToId: 'nope' });
    expect(found(switched)).toEqual(['failure switch-to']);
    expect(switched.at(-1)?.why).toMatch(/^the status is 404; .* Version nope comes from --switch-to: name a version/);
  });

  test('fails with a hint if it has no TLS', async () => {
    await using service = await startService();
    const [first] = await resultsOf(service.url.replace('http', 'https'));
    expect(first?.why).toContain('use http://');
  });

  test('can break each rule', () => {
    const broken = new Set(breaks.map(([expected]) => expected.split(' ')[1]));
    expect(rules.map(({ id }) => id).filter((id) => !broken.has(id))).toEqual([]);
  });

  test('fails if an API key of an earlier run is still valid', async () => {
    await using service = await startService();
    const { apiKey } = service.world.activate('GW-1');
    service.fail({ operation: 'property', fault: json('open'), skip: 4 });
    const results = await resultsOf(service.url, { apiKey });
    expect(found(results)).toEqual(['failure key-dropped']);
    expect(JSON.stringify(results)).not.toContain(apiKey);
  });

  test('is called on 200 connections at the same time if asked to', async () => {
    await using service = await startService();
    expect(found(await resultsOf(service.url, { connections: 200 }))).toEqual([]);
    expect(service.callsOf('currentVersion')).toHaveLength(206);
  });

  test.each([
    [503, 'warning connections'],
    [500, 'failure connections'],
  ])('that answers some of many calls with %i gets a %s', async (code, expected) => {
    await using service = await startService();
    service.fail({ operation: 'currentVersion', fault: status(code), skip: 10, times: 5 });
    const results = await resultsOf(service.url, { connections: 20 });
    expect(found(results)).toEqual([expected]);
    expect(results.at(-1)?.exchanges).toHaveLength(5);
  });

  test('gets a warning if its large text is smaller than 128 MiB, with the measured throughput', async () => {
    await using service = await startService();
    const results = await resultsOf(service.url, { largeVersionId: '1' });
    expect(found(results)).toEqual(['warning firmware-large']);
    expect(results.at(-1)?.note).toMatch(/^0\.3 MiB in \d+\.\d s: \d+\.\d MiB\/s$/);
  });

  test('fails if its large text is truncated', async () => {
    await using service = await startService();
    service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 1000 }, skip: 4 });
    expect(found(await resultsOf(service.url, { largeVersionId: '1' }))).toEqual(['failure firmware-large']);
  });

  testInFull('passes with a text of 128 MiB', async () => {
    await using service = await startService(96 * 1024 * 1024);
    expect(found(await resultsOf(service.url, { largeVersionId: '1' }))).toEqual([]);
  });

  test('that answers only some of many calls gets a failure with their number', async () => {
    await using service = await startService();
    service.fail({ operation: 'currentVersion', fault: { kind: 'reset' }, skip: 10, times: 5 });
    const results = await resultsOf(service.url, { connections: 20 });
    expect(found(results)).toEqual(['failure connections']);
    expect(results.at(-1)?.why).toMatch(
      /^5 of 20 calls at the same time get no reply. The first: there is no response: /,
    );
  });

  test('fails if it cannot be reached', async () => {
    const service = await startService();
    await service[Symbol.asyncDispose]();
    const [first, second] = await resultsOf(service.url);
    expect(first).toMatchObject({ verdict: 'failure', why: expect.stringContaining('ECONNREFUSED') as string });
    expect(second).toMatchObject({ verdict: 'warning', why: 'not tested: activation did not pass' });
  });
});

describe('npm run conform', () => {
  const run = async (...words: readonly string[]) =>
    new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      const main = 'test/campaigns/conform/main.ts';
      execFile(process.execPath, [main, ...words], (error, stdout, stderr) => {
        resolve({ code: error?.code ?? 0, stdout, stderr });
      });
    });

  test('exits 0 if all rules pass, and prints them as JSON', async () => {
    await using service = await startService();
    const { code, stdout } = await run('--url', service.url, '--serial', 'GW-1', '--switch-to', '2', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ passed: rules.length, warnings: 0, failures: 0 });
  });

  test('exits 1 if a rule fails, and shows request and response', async () => {
    await using service = await startService();
    service.fail({ operation: 'switchTo', fault: { kind: 'status', status: 400, body: 'no such switch' } });
    const { code, stdout } = await run('--url', service.url, '--serial', 'GW-1', '--switch-to', '2');
    expect(code).toBe(1);
    expect(stdout).toContain('failure  switch ');
    expect(stdout).toContain('> PUT http://127.0.0.1:');
    expect(stdout).toContain('> x-apikey: <key 2>');
    expect(stdout).toContain('< 400');
    expect(stdout).toContain('< no such switch');
    expect(stdout).toContain(`passed: ${rules.length - 1}, warnings: 0, failures: 1`);
  });

  test.each([
    [['--serial', 'GW-1'], '--url'],
    [['--url', 'ftp://x', '--serial', 'GW-1'], '--url'],
    [['--url', 'http://user:sesame@x', '--serial', 'GW-1'], '--url'],
    [['--url', 'http://x'], '--serial'],
    [['--nonsense'], '--nonsense'],
    [['--url', 'http://x', '--serial', 'GW-1', '--api-key', 'sesame\n'], '--api-key'],
    [['--url', 'http://x', '--serial', 'GW-1', '--topic-id', 'a1b2'], '--messaging'],
    [['--messaging', 'http://x', '--serial', 'GW-1', '--topic-id', 'a1b2'], '--messaging'],
    [['--messaging', 'mqtt://x', '--serial', 'GW-1'], '--topic-id'],
  ])('refuses %j with the exit code for wrong use', async (words, named) => {
    const { code, stderr } = await run(...words);
    expect(code).toBe(64);
    expect(stderr).toContain(named);
    expect(stderr).not.toContain('sesame');
  });
});
