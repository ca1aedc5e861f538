import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { operations } from '../../../../../src/service/operations.ts';
import type { ProxySettings } from '../../../../../src/service/rest/connection/proxy.ts';
import type { RestSettings } from '../../../../../src/service/rest/settings.ts';
import { asThing } from '../../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../../fakes/service/stand-in.ts';
import { Authority } from '../certificates.ts';
import type { Certificate } from '../certificates.ts';
import { readAll, restRig } from '../rest-rig.ts';
import { startProxy } from './test-proxy.ts';

const { signal } = new AbortController();
const versions = [{ id: '1', firmware: randomContent(1_000_000) }];

let authority: Authority;
let certificate: Certificate;
let plain: StandIn;
let secure: StandIn;

beforeAll(async () => {
  authority = await Authority.create();
  certificate = await authority.issue('service', 'IP:127.0.0.1');
  plain = await startStandIn({ versions });
  secure = await startStandIn({ versions, tls: certificate });
});

afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await secure[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
});

async function activate(service: StandIn, proxy: ProxySettings, others: Partial<RestSettings> = {}): Promise<unknown> {
  await using rig = restRig(service.url, { tls: { caFile: authority.caFile }, proxy, ...others });
  return await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
}

function authorityOf(service: StandIn): string {
  return new URL(service.url).host;
}

describe('through a proxy', () => {
  test('requests to an http service have complete addresses, and its download resumes after an interruption', async () => {
    await using proxy = await startProxy();
    await using rig = restRig(plain.url, { proxy: { http: proxy.url } });
    const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    plain.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 } });
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect((await readAll(text.chunks)).byteLength).toBe(text.totalBytes);
    expect(proxy.requests[0]).toBe(`PUT ${plain.url}/v1/things/activate/GW-1.json`);
    expect(plain.calls.at(-1)?.headers['host']).toBe(authorityOf(plain));
  });

  test('an https service is reached by a tunnel, and sees nothing of it', async () => {
    await using proxy = await startProxy();
    expect(await activate(secure, { https: proxy.url })).toMatchObject({ thingId: 'thing-1' });
    expect(proxy.requests).toEqual([`CONNECT ${authorityOf(secure)}`]);
    expect(secure.calls.at(-1)?.headers).not.toHaveProperty('proxy-authorization');
  });

  test('that itself speaks TLS, both work', async () => {
    await using proxy = await startProxy({ tls: certificate });
    expect(await activate(secure, { https: proxy.url })).toMatchObject({ thingId: 'thing-1' });
    expect(await activate(plain, { http: proxy.url })).toMatchObject({ thingId: 'thing-1' });
  });

  test('that wants credentials, they are sent, to the proxy alone', async () => {
    await using proxy = await startProxy({ credentials: 'us er:p@ss' });
    const url = proxy.url.replace('//', '//us%20er:p%40ss@');
    expect(await activate(secure, { https: url })).toMatchObject({ thingId: 'thing-1' });
    expect(await activate(plain, { http: url })).toMatchObject({ thingId: 'thing-1' });
    for (const [service, settings] of [
      [secure, { https: proxy.url }] as const,
      [plain, { http: proxy.url }] as const,
    ]) {
      await expect(activate(service, settings)).rejects.toMatchObject({
        code: 'proxy-authentication',
        exit: 'configuration',
      });
    }
  });

  test('is bypassed for hosts in NO_PROXY', async () => {
    await using proxy = await startProxy({ status: 500 });
    expect(await activate(secure, { https: proxy.url, no: '127.0.0.0/8' })).toMatchObject({ thingId: 'thing-1' });
    expect(proxy.requests).toEqual([]);
  });
});

describe('a proxy', () => {
  test('that rejects is distinguished from a service that does', async () => {
    await using proxy = await startProxy({ status: 403 });
    const call = activate(secure, { https: proxy.url });
    await expect(call).rejects.toMatchObject({ code: 'proxy-refused', exit: 'unreachable' });
    await expect(call).rejects.toThrow('status 403');
  });

  test('that is down is distinguished from a service that is', async () => {
    const proxy = await startProxy();
    await proxy[Symbol.asyncDispose]();
    const url = proxy.url.replace('//', '//user:secret@');
    for (const [service, settings] of [[secure, { https: url }] as const, [plain, { http: url }] as const]) {
      const call = activate(service, settings);
      await expect(call).rejects.toMatchObject({ code: 'proxy-unreachable' });
      await expect(call).rejects.not.toThrow('secret');
    }
  });

  test('that is silent meets the deadline', async () => {
    await using proxy = await startProxy({ silent: true });
    const deadlines = { connectMs: 200, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000, transferMs: 5_000 };
    const call = activate(secure, { https: proxy.url }, { deadlines });
    await expect(call).rejects.toMatchObject({ code: 'proxy-unreachable' });
  });

  test('whose certificate is not trusted is not used', async () => {
    await using proxy = await startProxy({ tls: certificate });
    const call = activate(secure, { https: proxy.url }, { tls: {} });
    await expect(call).rejects.toMatchObject({ code: 'tls-unknown-ca' });
    await expect(call).rejects.toThrow('the proxy');
  });
});
