import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Activation } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../../fakes/service/firmware-text.ts';
import { MessagingSide } from '../../../fakes/service/messaging.ts';
import type { RpcReply, Spoil } from '../../../fakes/service/messaging.ts';
import { World } from '../../../fakes/service/world.ts';
import { readAll } from '../rest/rest-rig.ts';
import { messagingRig, messagingSettings } from './messaging-rig.ts';
import type { MessagingRig } from './messaging-rig.ts';
import { Mosquitto } from './mosquitto.ts';

const { signal } = new AbortController();
const firmware = randomContent(300_000);
const firmwareText = Buffer.concat([...new FirmwareText(firmware).read()]);
const right = { id: '1', name: 'one' };
const patience = { timeout: 30_000 };

let broker: Mosquitto;
let service: MessagingSide;
let rig: MessagingRig;
let thing: Activation;

beforeAll(async () => {
  broker = await Mosquitto.start();
});
afterAll(async () => {
  await broker[Symbol.asyncDispose]();
});

describe.each([5, 4] as const)('with MQTT protocol version %i', (protocolVersion) => {
  beforeEach(async () => {
    const world = new World();
    world.addVersion({ id: '1', name: 'one', firmware });
    service = await MessagingSide.start(world, { url: broker.url, client: { protocolVersion } });
    rig = messagingRig(broker.url, { protocolVersion, maxMessageBytes: 1_000_000 });
    thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
  });
  afterEach(async () => {
    await rig[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  /** Replaces the reply to the next request for the current version. */
  function spoil(replies: Spoil): void {
    service.spoilNext('currentVersion', replies);
  }

  function ignored(): Readonly<Record<string, number>> {
    return Object.fromEntries(Object.entries(rig.transport.report.ignored).filter(([, count]) => count > 0));
  }

  async function currentVersion(): Promise<unknown> {
    return rig.transport.call(operations.currentVersion, thing, signal);
  }

  const foreign = '{"jsonrpc":"2.0","id":"another-device","result":{"id":"evil","name":"evil"}}';
  const withoutId = '{"jsonrpc":"2.0","result":{"id":"evil","name":"evil"}}';
  const own = { correlation: 'none' } as const;
  test.each<[string, readonly RpcReply[], Readonly<Record<string, number>>]>([
    ['another device’s reply', [{ text: foreign, ...own }], { unknown: 1 }],
    ['a reply without an id', [{ text: withoutId, ...own }], { unreadable: 1 }],
    ['a reply with a number as its id', [{ text: withoutId.replace('{', '{"id":1,'), ...own }], { unreadable: 1 }],
    [
      'another device’s request',
      [{ text: '{"jsonrpc":"2.0","id":"x","method":"things.activate"}', ...own }],
      { request: 1 },
    ],
    ['no JSON at all', [{ text: 'hello', ...own }], { unreadable: 1 }],
    ['nothing at all', [{ text: '', ...own }], { unreadable: 1 }],
    ['what is not UTF-8', [{ text: Buffer.from('{"id":"\xff\xfe"}', 'latin1'), ...own }], { unreadable: 1 }],
    ['deep nesting', [{ text: `{"x":${'['.repeat(50_000)}`, ...own }], { unreadable: 1 }],
    ['a batch', [{ text: `[${foreign}]`, ...own }], { unreadable: 1 }],
    ['a large message that nobody asked for', [{ text: Buffer.alloc(1_500_000, ' '), ...own }], { unwanted: 1 }],
  ])('%s is ignored, and the right reply is taken', async (_, replies, counts) => {
    spoil((_request, text) => [...replies, { text }]);
    expect(await currentVersion()).toEqual(right);
    expect(ignored()).toEqual(counts);
  });

  test('a message that the broker kept is not taken', async () => {
    await service.publish(service.replyTopic, foreign, true);
    await using later = messagingRig(broker.url, { protocolVersion });
    expect(await later.transport.call(operations.currentVersion, thing, signal)).toEqual(right);
    await service.publish(service.replyTopic, '', true);
    // with version 5 the broker was asked to omit it
    expect(later.transport.report.ignored).toMatchObject({ retained: protocolVersion === 5 ? 0 : 1, unknown: 0 });
  });

  test('a reply under the correlation data of another request is not taken', async () => {
    spoil((_request, text) => [
      { text: text.toString().replace('one', 'evil'), correlation: Buffer.from('another') },
      { text },
    ]);
    // without version 5 there is no such data, and the first reply is as good as any
    expect(await currentVersion()).toEqual(protocolVersion === 5 ? right : { ...right, name: 'evil' });
    await expect.poll(ignored, patience).toEqual(protocolVersion === 5 ? { mismatched: 1 } : { duplicate: 1 });
  });

  test('a second reply with other content is ignored', async () => {
    spoil((_request, text) => [{ text }, { text: text.toString().replace('one', 'two') }]);
    expect(await currentVersion()).toEqual(right);
    await expect.poll(ignored, patience).toEqual({ duplicate: 1 });
  });

  test('replies that were recorded and are played again are ignored', async () => {
    const recorded: Buffer[] = [];
    for (let round = 0; round < 3; round += 1) {
      spoil((_request, text) => {
        recorded.push(text);
        const replayed = recorded.slice(0, -1).map((old): RpcReply => ({ text: old, correlation: 'none' }));
        return [...replayed, { text }];
      });
      expect(await currentVersion()).toEqual(right);
    }
    expect(ignored()).toEqual({ duplicate: 3 });
  });

  test('replies in any order find their requests', async () => {
    const first = Promise.withResolvers<void>();
    spoil(async (_request, text) => {
      await first.promise;
      return [{ text }];
    });
    const late = currentVersion();
    expect(await rig.transport.call(operations.targetVersion, thing, signal)).toEqual(right);
    first.resolve();
    expect(await late).toEqual(right);
    expect(ignored()).toEqual({});
  });

  test.each([
    ['cut off', (text: string) => text.slice(0, -5)],
    ['with a result of another shape', (text: string) => text.replace('"name"', '"nome"')],
    ['without a result', (text: string) => text.replace('"result"', '"resolt"')],
    ['of another version of JSON-RPC', (text: string) => text.replace('"2.0"', '"1.0"')],
    ['with an error that is none', (text: string) => text.replace('"result"', '"error"')],
    ['with characters that are not UTF-8', (text: string) => Buffer.from(text.replace('one', '\xff'), 'latin1')],
  ])('the reply %s is an error of the protocol', async (_, change) => {
    spoil((_request, text) => [{ text: change(text.toString()) }]);
    await expect(currentVersion()).rejects.toMatchObject({
      code: 'reply-malformed',
      exit: 'protocol',
      remedy: 'retry',
    });
  });

  test('an oversized reply is rejected immediately', async () => {
    spoil((_request, text) => [{ text: text.toString().replace('one', 'x'.repeat(3_000_000)) }]);
    await expect(currentVersion()).rejects.toMatchObject({ code: 'reply-too-large' });
  });

  test('an error object becomes an error with its code and message', async () => {
    const error = { code: -32_603, message: 'database', data: { retry: true } };
    spoil(({ id }) => [{ text: JSON.stringify({ jsonrpc: '2.0', id, error }) }]);
    await expect(currentVersion()).rejects.toMatchObject({
      code: 'service-failed',
      remedy: 'retry',
      message: 'current version: the service failed (error -32603): database',
    });
  });

  test('an oversized image suggests REST', async () => {
    await using small = messagingRig(broker.url, { protocolVersion, maxMessageBytes: 200_000 });
    const call = small.transport.firmware('1', asThing(thing), undefined, signal);
    await expect(call).rejects.toMatchObject({
      code: 'message-too-large',
      remedy: 'give-up',
      message: expect.stringMatching(/0\.4 MiB, more than the 0\.2 MiB .*REST/) as string,
      advice: expect.stringContaining('firmware_transport = "rest"') as string,
    });
    expect(await small.transport.call(operations.currentVersion, thing, signal)).toEqual(right);
  });

  test('of two large messages, one of another device, the right one is taken', async () => {
    service.spoilNext('firmware', ({ id }, text) => {
      const foreignText = Buffer.from(text);
      foreignText.write('00000000', text.indexOf(id));
      return [{ text: foreignText, ...own }, { text }, { text }];
    });
    await using transfer = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect((await readAll(transfer.chunks)).equals(firmwareText)).toBe(true);
    expect(await currentVersion()).toEqual(right);
    expect(ignored()).toMatchObject({ unknown: 1 });
  });

  test.each([
    ['is cut off', (text: Buffer) => text.subarray(0, -3)],
    ['has no result', (text: Buffer) => Buffer.from(text.toString().replace('"result"', '"resolt"'))],
  ])('a firmware whose reply %s is an error of the protocol', async (_, change) => {
    service.spoilNext('firmware', (_request, text) => [{ text: change(text) }]);
    const call = rig.transport.firmware('1', asThing(thing), undefined, signal);
    await expect(call).rejects.toMatchObject({ code: 'reply-malformed' });
  });

  test('an image that is not a text is passed on unchanged, for its reader to reject', async () => {
    service.spoilNext('firmware', ({ id }) => [{ text: `{"jsonrpc":"2.0","id":"${id}","result": [1, 2]}` }]);
    await using transfer = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect((await readAll(transfer.chunks)).toString()).toBe('[1,2]');
  });
});

test('requests and replies may share one topic', async () => {
  const world = new World();
  world.addVersion({ id: '1', name: 'one', firmware });
  for (const protocolVersion of [5, 4] as const) {
    service = await MessagingSide.start(world, { url: broker.url, client: { protocolVersion } });
    const { topics } = messagingSettings(broker.url);
    await using shared = messagingRig(broker.url, { protocolVersion, topics: { ...topics, reply: topics.request } });
    service.spoilNext('any', (_request, text) => [{ text, topic: topics.request }]);
    service.spoilNext('any', (_request, text) => [{ text, topic: topics.request }]);
    thing = await shared.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    expect(await shared.transport.call(operations.currentVersion, thing, signal)).toEqual(right);
    // without version 5 the broker gives us our own requests
    expect(shared.transport.report.ignored.request).toBe(protocolVersion === 5 ? 0 : 1);
    await service[Symbol.asyncDispose]();
  }
});
