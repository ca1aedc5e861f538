import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { howMuch } from '../../../full.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { SiteCache } from './site-cache.ts';

let service: StandIn;
let cache: SiteCache;

beforeEach(async () => {
  const versions = await Promise.all(
    ['1.0.0', '2.0.0'].map(async (id) => ({ id, firmware: bufferContent(await artifact(id, image(`healthy ${id}`))) })),
  );
  service = untilTestEnds(await startStandIn({ versions, targetVersionId: '2.0.0', keyRequired: 'everything' }));
  cache = untilTestEnds(await SiteCache.start(service.url));
});

async function newGateway(number: number): Promise<FileGateway> {
  return untilTestEnds(
    await FileGateway.create({
      serviceUrl: cache.url,
      image: image('healthy 0'),
      slotBytes: 2_000_000,
      trustedKey: releaseKey.publicPem,
      serialNumber: `GW-${number}`,
    }),
  );
}

/** Everything that the proxy keeps, and has written. */
async function filesOf(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== 'nginx.conf');
  return (
    await Promise.all(files.map(async ({ parentPath, name }) => readFile(join(parentPath, name), 'latin1')))
  ).join();
}

const COUNT = howMuch(10, 4);

test('a caching proxy fetches an image once for many gateways, and stores none of their keys', async () => {
  const gateways = await Promise.all(Array.from({ length: COUNT }, async (_, number) => newGateway(number)));
  const outcomes = await Promise.all(gateways.map(async (gateway) => gateway.json('--update-now')));
  expect(outcomes).toEqual(
    gateways.map(() => ({ kind: 'result', outcome: { kind: 'rebooting', version: '2.0.0', slot: 'B' } })),
  );
  expect(service.callsOf('firmware')).toHaveLength(1);
  const log = await cache.log();
  expect(log.match(/firmware\.json 200 (?:MISS|HIT) /g)).toHaveLength(COUNT);
  const kept = await filesOf(cache.folder);
  expect(kept).toContain('KEY: firmware/2.0.0');
  const secrets = service.world.things.map(({ apiKey }) => apiKey);
  expect(secrets).toHaveLength(COUNT);
  expect(secrets.filter((secret) => kept.includes(secret))).toEqual([]);
}, 120_000);

test('serves a range from the cache if the text is unchanged', async () => {
  const { thingId, apiKey } = service.world.activate('GW-1');
  const ask = async (headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    fetch(`${cache.url}/v1/things/${thingId}/versions/2.0.0/firmware.json`, {
      headers: { 'x-apikey': apiKey, ...headers },
    });
  const whole = await ask();
  const text = await whole.text();
  const etag = whole.headers.get('etag') ?? '';
  expect([etag, whole.headers.get('content-length')]).toEqual(['"2.0.0-1"', String(text.length)]);
  const part = await ask({ range: 'bytes=1000-', 'if-range': etag });
  expect([part.status, part.headers.get('etag')]).toEqual([206, etag]);
  expect(part.headers.get('content-range')).toBe(`bytes 1000-${text.length - 1}/${text.length}`);
  expect(await part.text()).toBe(text.slice(1000));
  const other = await ask({ range: 'bytes=1000-', 'if-range': '"another"' });
  expect([other.status, await other.text()]).toEqual([200, text]);
  expect(service.callsOf('firmware')).toHaveLength(1);
});

test('makes the proxy fetch the whole text for a first range request', async () => {
  const { thingId, apiKey } = service.world.activate('GW-1');
  const url = `${cache.url}/v1/things/${thingId}/versions/2.0.0/firmware.json`;
  const headers = { 'x-apikey': apiKey, range: 'bytes=1000-', 'if-range': '"2.0.0-1"' };
  for (const _ of ['miss', 'hit']) expect((await fetch(url, { headers })).status).toBe(206);
  expect(service.callsOf('firmware').map(({ headers: { range } }) => range)).toEqual([undefined]);
});
