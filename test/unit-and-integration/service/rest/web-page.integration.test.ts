import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Activation } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import { RestTransport } from '../../../../src/service/rest/transport.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import type { FaultInput, Operation } from '../../../fakes/service/faults.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { RecordingLog } from '../recording-log.ts';
import { readAll, restSettings } from './rest-rig.ts';

const { signal } = new AbortController();
const html = { 'content-type': 'text/html; charset=utf-8' };

/**
 * Foreign replies with status 200. Their forms are taken from captive portals (RFC 8952, section 1), maintenance pages
 * and single-page applications; browsers' detection of HTML: WHATWG, MIME Sniffing, section 7.1.
 */
const pages: readonly (readonly [string, FaultInput])[] = [
  ['a page labeled as HTML', { kind: 'page' }],
  ['a page without a label', { kind: 'page', labeled: false }],
  ['a page labeled as JSON', body('<html>log in</html>', { 'content-type': 'application/json' })],
  ['a page behind a byte order mark', body('\ufeff\n<!DOCTYPE html><p>log in')],
  ['a page in UTF-16', body('\ufeff<\0h\0t\0m\0l\0>')],
  ['a page that begins with a comment', body('<!-- portal --><html>', { 'content-type': 'text/plain' })],
  ['XHTML', body('<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>')],
  ['XHTML by its label', body('log in', { 'content-type': 'application/xhtml+xml' })],
  ['text labeled as HTML', body('log in', html)],
  ['an empty page labeled as HTML', body('', html)],
  ['a page by a Refresh header', body('', { refresh: '0; url=http://portal.example/' })],
  ['status 511', { kind: 'status', status: 511, body: '<html>log in</html>' }],
];

function body(text: string, headers: Readonly<Record<string, string>> = {}): FaultInput {
  return { kind: 'body', text, headers };
}

let service: StandIn;
let transport: RestTransport;
let thing: Activation;
const times: number[] = [];

beforeAll(async () => {
  service = await startStandIn({ versions: [{ id: '1', firmware: randomContent(100_000) }] });
  const deps = { clock: systemClock, random: () => 0, log: new RecordingLog() };
  transport = new RestTransport(restSettings(service.url), { ...deps, onServiceTime: (atMs) => times.push(atMs) });
  thing = await transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
});

beforeEach(() => {
  service.clearFaults();
  times.length = 0;
});

afterAll(async () => {
  await transport[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const calls: readonly (readonly [Operation, () => Promise<unknown>])[] = [
  ['activate', async () => transport.call(operations.activate, { serialNumber: 'GW-1' }, signal)],
  ['currentVersion', async () => transport.call(operations.currentVersion, thing, signal)],
  ['targetVersion', async () => transport.call(operations.targetVersion, thing, signal)],
  ['updates', async () => transport.call(operations.updates, { ...thing, versionId: '1' }, signal)],
  ['property', async () => transport.call(operations.property, { ...thing, propertyId: 'p' }, signal)],
  ['switchTo', async () => transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal)],
  ['setProperty', async () => transport.call(operations.setProperty, { ...thing, propertyId: 'p', value: 1 }, signal)],
  [
    'postDatapoints',
    async () => transport.call(operations.postDatapoints, { ...thing, eventId: 'e', value: [] }, signal),
  ],
  [
    'firmware',
    async () => {
      await using text = await transport.firmware('1', asThing(thing), undefined, signal);
      await readAll(text.chunks);
    },
  ],
];

describe.each(pages)('%s', (_, fault) => {
  test.each(calls)('is rejected as a reply to %s', async (operation, call) => {
    service.fail({ operation, fault, times: 'always' });
    await expect(call()).rejects.toMatchObject({
      code: 'reply-web-page',
      exit: 'unreachable',
      remedy: 'retry',
      isAnswer: false,
      message: expect.stringContaining('a captive portal may be answering') as string,
    });
    expect(times).toEqual([]);
  });
});

// The clock of a gateway without a time server may depend on the only reply that it gets.
test.each<[string, FaultInput, boolean]>([
  ['404', { kind: 'status', status: 404 }, true],
  ['403', { kind: 'status', status: 403 }, true],
  ['404 with a page', { kind: 'body', status: 404, text: '<html></html>' }, false],
  ['503', { kind: 'status', status: 503 }, false],
  ['407', { kind: 'status', status: 407 }, false],
])('the time in a %s counts only if the service itself replies', async (_, fault, counts) => {
  service.fail({ operation: 'currentVersion', fault });
  await expect(transport.call(operations.currentVersion, thing, signal)).rejects.toThrow('status');
  expect(times.map((atMs) => Math.abs(atMs - Date.now()) < 60_000)).toEqual(counts ? [true] : []);
});

test('a page does not end a download: it continues when the page is gone', async () => {
  const { byteLength } = await readFirmware();
  service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 50_000 } });
  service.fail({ operation: 'firmware', fault: { kind: 'page' }, ranged: true });
  expect((await readFirmware()).byteLength).toBe(byteLength);
});

async function readFirmware(): Promise<Buffer> {
  await using text = await transport.firmware('1', asThing(thing), undefined, signal);
  return await readAll(text.chunks);
}

// Services in PHP label everything as HTML.
test('JSON that is labeled as HTML is an answer to a read whose form is known', async () => {
  service.fail({ operation: 'currentVersion', fault: body('{"id":"1","name":"1"}', html) });
  expect(await transport.call(operations.currentVersion, thing, signal)).toMatchObject({ id: '1' });
});

test.each<[string, FaultInput]>([
  ['204', { kind: 'status', status: 204 }],
  ['200 without a body', body('')],
  ['200 with null', body('null', { 'content-type': 'application/json' })],
  ['200 with a text', body('OK', { 'content-type': 'text/plain' })],
  ['202 with an object', { kind: 'body', status: 202, text: '{}' }],
])('%s is a success of a write', async (_, fault) => {
  for (const operation of ['switchTo', 'setProperty', 'postDatapoints'] as const) {
    service.fail({ operation, fault });
    const call = calls.find(([name]) => name === operation)?.[1];
    expect(await call?.()).toBeUndefined();
  }
});

test('a redirect to another origin is a failure, and may be a captive portal', async () => {
  service.fail({ operation: 'switchTo', fault: { kind: 'redirect', location: 'http://portal.example/login?x=1' } });
  const call = transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal);
  await expect(call).rejects.toMatchObject({ code: 'service-redirected' });
  await expect(call).rejects.toThrow(/a captive portal may be answering .*to http:\/\/portal\.example\)/);
});

test('a write whose reply is interrupted before its first byte may have met a page', async () => {
  service.fail({ operation: 'switchTo', fault: { kind: 'wrong-length', by: 10 } });
  await transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal); // 204 has no body
  service.fail({
    operation: 'switchTo',
    fault: { kind: 'not-http', text: 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n' },
  });
  const call = transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal);
  await expect(call).rejects.toMatchObject({ code: 'connection-reset' });
});
