import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { Activation } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import type { FaultInput } from '../../../fakes/service/faults.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { restRig } from './rest-rig.ts';
import type { RestRig } from './rest-rig.ts';

const { signal } = new AbortController();
/** For unresponsive peers. Calls that must succeed have the default timeouts. */
const impatient = { connectMs: 10_000, firstByteMs: 1_000, idleMs: 1_000, totalMs: 20_000, transferMs: 20_000 };
const one = { id: '1', name: '1', description: undefined };

let service: StandIn;
let rig: RestRig;
let hasty: RestRig;
let thing: Activation;

beforeAll(async () => {
  service = await startStandIn({ versions: [{ id: '1' }] });
  rig = restRig(service.url);
  hasty = restRig(service.url, { deadlines: impatient });
  thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
  await hasty[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

describe('a call', () => {
  test.each<[FaultInput, string]>([
    [{ kind: 'status', status: 401 }, 'key-rejected'],
    [{ kind: 'status', status: 403 }, 'key-rejected'],
    [{ kind: 'status', status: 404 }, 'service-not-found'],
    [{ kind: 'status', status: 408 }, 'service-request-timeout'],
    [{ kind: 'status', status: 409 }, 'service-conflict'],
    [{ kind: 'status', status: 413 }, 'service-too-large'],
    [{ kind: 'status', status: 418 }, 'service-rejected'],
    [{ kind: 'status', status: 429 }, 'service-rate-limited'],
    [{ kind: 'status', status: 500 }, 'service-failed'],
    [{ kind: 'status', status: 503 }, 'service-unavailable'],
    [{ kind: 'redirect', location: 'http://127.0.0.1:1/other' }, 'service-redirected'],
    [{ kind: 'status', status: 204 }, 'reply-malformed'],
    [{ kind: 'body', text: '' }, 'reply-malformed'],
    [{ kind: 'body', text: '{' }, 'reply-malformed'],
    [{ kind: 'body', text: '[]' }, 'reply-malformed'],
    [{ kind: 'body', text: '{"id":7,"name":"x"}' }, 'reply-malformed'],
    [{ kind: 'body', text: 'xx', headers: { 'content-encoding': 'gzip' } }, 'reply-malformed'],
    [{ kind: 'not-http', text: 'SSH-2.0-OpenSSH_9.2\r\n' }, 'reply-malformed'],
    [{ kind: 'huge', bytes: 3_000_000 }, 'reply-too-large'],
    [{ kind: 'reset' }, 'connection-reset'],
    [{ kind: 'reset', afterBytes: 5 }, 'connection-reset'],
    [{ kind: 'truncate' }, 'connection-reset'],
    [{ kind: 'truncate', afterBytes: 5 }, 'connection-reset'],
    [{ kind: 'silence' }, 'first-byte-timeout'],
    [{ kind: 'silence', afterBytes: 5 }, 'idle-timeout'],
    [{ kind: 'wrong-length', by: 10 }, 'idle-timeout'],
    [{ kind: 'wrong-length', by: -5 }, 'reply-malformed'],
    [{ kind: 'not-http', text: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100) }, 'reply-malformed'],
  ])('that meets %j fails as %s, and the next one is fine', async (fault, code) => {
    const { transport } = /^(?:first-byte|idle)-timeout$/.test(code) ? hasty : rig;
    service.fail({ operation: 'targetVersion', fault });
    const call = transport.call(operations.targetVersion, thing, signal);
    await expect(call).rejects.toMatchObject({ name: 'ServiceError', code });
    await expect(call).rejects.toThrow('target version: ');
    expect(await transport.call(operations.targetVersion, thing, signal)).toEqual(one);
  });

  test.each<[FaultInput]>([
    [{ kind: 'early-hints' }],
    [{ kind: 'drip', bytes: 3, everyMs: 2 }],
    [{ kind: 'body', status: 201, text: '{"id":"1","name":"1","new":true}' }],
    [{ kind: 'body', text: '\ufeff {"description":null,"name":"1","id":"1"}\n' }],
  ])('that meets %j succeeds all the same', async (fault) => {
    service.fail({ operation: 'targetVersion', fault });
    expect(await rig.transport.call(operations.targetVersion, thing, signal)).toEqual(one);
  });

  test('tells how long the service wants to be left alone, for seconds and for a date', async () => {
    service.fail({ operation: 'targetVersion', fault: { kind: 'status', status: 503, retryAfter: 7 } });
    await expect(rig.transport.call(operations.targetVersion, thing, signal)).rejects.toMatchObject({
      retryAfterMs: 7_000,
    });
    const retryAfter = new Date(Date.now() - 1_000).toUTCString();
    service.fail({ operation: 'targetVersion', fault: { kind: 'status', status: 429, retryAfter } });
    await expect(rig.transport.call(operations.targetVersion, thing, signal)).rejects.toMatchObject({
      retryAfterMs: 0,
    });
  });

  test('shows the beginning of an error’s body, but never the key', async () => {
    const body = `{"error":"no ${thing.apiKey} here"}`;
    service.fail({ operation: 'targetVersion', fault: { kind: 'status', status: 400, body } });
    const call = rig.transport.call(operations.targetVersion, thing, signal);
    await expect(call).rejects.toThrow(/\(status 400 of 127\.0\.0\.1:\d+\/[^)]*\): \{"error":"no \*\*\* here"\}/);
  });

  test('shows the status even if the error’s body never ends', async () => {
    service.fail({ operation: 'targetVersion', fault: { kind: 'body', status: 500, text: 'x'.repeat(100_000) } });
    await expect(rig.transport.call(operations.targetVersion, thing, signal)).rejects.toMatchObject({
      code: 'service-failed',
    });
  });

  test('has a deadline as a whole, even if something always comes', async () => {
    await using hastier = restRig(service.url, { deadlines: { ...impatient, totalMs: 500 } });
    service.fail({ operation: 'targetVersion', fault: { kind: 'drip', bytes: 1, everyMs: 100 } });
    await expect(hastier.transport.call(operations.targetVersion, thing, signal)).rejects.toMatchObject({
      code: 'total-timeout',
      exit: 'unreachable',
    });
  });

  test('that is aborted ends immediately with the reason, in any state', async () => {
    for (const fault of [{ kind: 'silence' }, { kind: 'silence', afterBytes: 5 }] as const) {
      const controller = new AbortController();
      service.fail({ operation: 'targetVersion', fault });
      const arrived = service.nextCall('targetVersion');
      const call = rig.transport.call(operations.targetVersion, thing, controller.signal);
      const reason = new Error('stop');
      const abort = async (): Promise<void> => {
        await arrived;
        controller.abort(reason);
      };
      await Promise.all([abort(), expect(call).rejects.toBe(reason)]);
    }
  });

  test('that reports something is complete as soon as the service accepts it, even if more data follows', async () => {
    for (const fault of [
      { kind: 'body', text: 'null' },
      { kind: 'body', status: 202, text: 'x'.repeat(100_000) },
      { kind: 'wrong-length', by: 10 },
    ] as const) {
      service.fail({ operation: 'switchTo', fault });
      await rig.transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal);
    }
    expect(await rig.transport.call(operations.targetVersion, thing, signal)).toEqual(one);
  });

  test('many concurrent calls share a few connections', async () => {
    const calls = Array.from({ length: 40 }, async () => rig.transport.call(operations.targetVersion, thing, signal));
    expect(await Promise.all(calls)).toHaveLength(40);
  });
});

describe('without a service', () => {
  test('a refused connection names the address', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    await using lost = restRig(`http://127.0.0.1:${port}`);
    const call = lost.transport.call(operations.targetVersion, thing, signal);
    await expect(call).rejects.toMatchObject({ code: 'connection-refused', exit: 'unreachable' });
    await expect(call).rejects.toThrow(`target version: 127.0.0.1:${port} refused the connection`);
  });

  test('a transport that is closed lets nothing hang', async () => {
    const closed = restRig(service.url, { deadlines: { ...impatient, firstByteMs: 60_000 } });
    service.fail({ operation: 'targetVersion', fault: { kind: 'silence' } });
    const arrived = service.nextCall('targetVersion');
    const call = closed.transport.call(operations.targetVersion, thing, signal);
    const close = async (): Promise<void> => {
      await arrived;
      await closed[Symbol.asyncDispose]();
    };
    await Promise.all([close(), expect(call).rejects.toMatchObject({ name: 'ServiceError' })]);
  });
});

describe('what is sent', () => {
  test('is a key where there is one and may be one, and the media type of the interface', async () => {
    service.calls.length = 0;
    thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    await rig.transport.call(operations.targetVersion, thing, signal);
    await rig.transport.call(operations.setProperty, { ...thing, propertyId: 'p', value: 'text' }, signal);
    await rig.transport.call(operations.property, { ...thing, propertyId: 'p' }, signal);
    await rig.transport.call(
      operations.postDatapoints,
      { ...thing, eventId: 'e', value: [{ value: 1, at: '2027-01-01T00:00:00.000Z' }] },
      signal,
    );
    expect(service.calls.map(({ headers }) => headers['x-apikey'] === thing.apiKey)).toEqual([
      false,
      true,
      true,
      true,
      true,
    ]);
    const types = service.calls.map(({ headers }) => headers['content-type']);
    const json = 'text/json; charset=UTF-8';
    expect(types).toEqual([undefined, undefined, json, undefined, json]);
    expect(service.calls.map(({ body }) => body)).toEqual([
      '',
      '',
      '"text"',
      '',
      '[{"value":1,"at":"2027-01-01T00:00:00.000Z"}]',
    ]);
    expect(service.calls.every(({ headers }) => headers['user-agent'] === 'thing-agent/test')).toBe(true);
  });

  test('has no key during provisioning, if configured', async () => {
    await using shy = restRig(service.url, { keyOnProvisioning: false });
    service.calls.length = 0;
    await shy.transport.call(operations.targetVersion, thing, signal);
    expect(service.calls[0]?.headers['x-apikey']).toBeUndefined();
    service.behave({ keyRequired: 'everything' });
    await expect(shy.transport.call(operations.targetVersion, thing, signal)).rejects.toMatchObject({
      code: 'key-required',
    });
    service.behave({ keyRequired: 'values' });
  });

  test('is a property’s text as it is where the settings say so', async () => {
    await using plain = restRig(service.url, { propertyText: 'plain' });
    service.calls.length = 0;
    await plain.transport.call(operations.setProperty, { ...thing, propertyId: 'p', value: 'two words' }, signal);
    await plain.transport.call(operations.setProperty, { ...thing, propertyId: 'p', value: { a: 1 } }, signal);
    expect(service.calls.map(({ body }) => body)).toEqual(['two words', '{"a":1}']);
  });

  test.each([undefined, () => 1, 1n])('rejects %s, which is not JSON', async (value) => {
    const call = rig.transport.call(operations.setProperty, { ...thing, propertyId: 'p', value }, signal);
    await expect(call).rejects.toMatchObject({ code: 'value-invalid', exit: 'usage' });
  });
});
