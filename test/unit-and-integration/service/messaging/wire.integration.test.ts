import { connectAsync } from 'mqtt';
import type { IPublishPacket, MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { operations } from '../../../../src/service/operations.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { MessagingSide } from '../../../fakes/service/messaging.ts';
import { World } from '../../../fakes/service/world.ts';
import { messagingRig } from './messaging-rig.ts';
import type { MessagingRig } from './messaging-rig.ts';
import { Mosquitto } from './mosquitto.ts';

/** A message as anybody sees it who listens to the broker. */
interface Overheard {
  readonly topic: string;
  readonly message: unknown;
  readonly properties: IPublishPacket['properties'];
}

const { signal } = new AbortController();
const topics = { request: 'v1.a1b2.json', reply: 'v1.a1b2.reply.json' };

/** interface.md, "Messaging form": topic, method and params of each operation, verbatim. */
const table: readonly (readonly [topic: string, method: string, params: Readonly<Record<string, string>>])[] = [
  ['v1.json', 'things.activate', { serialNumber: 'GW-1' }],
  [topics.request, 'things.versions.current.get', { thingId: 'thing-1' }],
  [topics.request, 'things.versions.target.get', { thingId: 'thing-1' }],
  [topics.request, 'things.versions.firmware.get', { thingId: 'thing-1', versionId: '1' }],
  [topics.request, 'things.versions.updates.list', { thingId: 'thing-1', versionId: '1' }],
  [topics.request, 'things.versions.switch', { thingId: 'thing-1', versionId: '1' }],
];

let broker: Mosquitto;
let listener: MqttClient;
let service: MessagingSide;
let heard: Overheard[];

beforeAll(async () => {
  broker = await Mosquitto.start();
});
afterAll(async () => {
  await broker[Symbol.asyncDispose]();
});
beforeEach(async () => {
  const world = new World();
  world.addVersion({ id: '1', name: 'one', firmware: randomContent(1_000) });
  service = await MessagingSide.start(world, { url: broker.url });
  heard = [];
  listener = await connectAsync(broker.url, { protocolVersion: 5 });
  listener.on('message', (topic, payload, { properties }) =>
    heard.push({ topic, message: JSON.parse(payload.toString('utf8')), properties }),
  );
  await listener.subscribeAsync(['v1.json', topics.request, topics.reply], { qos: 1 });
});
afterEach(async () => {
  await listener.endAsync(true);
  await service[Symbol.asyncDispose]();
});

async function askEverything({ transport }: MessagingRig): Promise<void> {
  const thing = await transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
  await transport.call(operations.currentVersion, thing, signal);
  await transport.call(operations.targetVersion, thing, signal);
  await using _ = await transport.firmware('1', asThing(thing), undefined, signal);
  await transport.call(operations.updates, { ...thing, versionId: '1' }, signal);
  await transport.call(operations.switchTo, { ...thing, versionId: '1' }, signal);
}

/** As many requests and replies as were made; the listener may hear them a little later. */
async function exchanged(count: number): Promise<{ readonly requests: Overheard[]; readonly replies: Overheard[] }> {
  await expect.poll(() => heard.length).toBe(2 * count);
  const replies = heard.filter(({ topic }) => topic === topics.reply);
  return { replies, requests: heard.filter(({ topic }) => topic !== topics.reply) };
}

function idOf({ message }: Overheard): unknown {
  return (message as { readonly id: unknown }).id;
}

describe.each([5, 4] as const)('over MQTT protocol version %i', (protocolVersion) => {
  test('requests match the interface, member for member', async () => {
    await using rig = messagingRig(broker.url, { protocolVersion });
    await askEverything(rig);
    const { requests } = await exchanged(table.length);
    expect(requests.map(({ topic, message }) => [topic, message])).toEqual(
      table.map(([topic, method, params]) => [
        topic,
        { jsonrpc: '2.0', id: expect.any(String) as string, method, params },
      ]),
    );
  });

  test('a request has its reply topic and correlation data, if the protocol supports them', async () => {
    await using rig = messagingRig(broker.url, { protocolVersion });
    await askEverything(rig);
    const { requests } = await exchanged(table.length);
    for (const request of requests) {
      const { responseTopic, correlationData, contentType, messageExpiryInterval } = request.properties ?? {};
      expect([responseTopic, correlationData?.toString(), contentType]).toEqual(
        protocolVersion === 5 ? [topics.reply, idOf(request), 'application/json'] : [undefined, undefined, undefined],
      );
      // no client waits for it longer than that
      expect(messageExpiryInterval ?? 0).toBeLessThanOrEqual(60);
    }
  });
});

test('a switch is answered by a reply without a result', async () => {
  await using rig = messagingRig(broker.url);
  await askEverything(rig);
  const { requests, replies } = await exchanged(table.length);
  const ids = requests.map(idOf);
  expect(replies.at(-1)?.message).toEqual({ jsonrpc: '2.0', id: ids.at(-1) });
});

test('no id is given twice, not by another start either, and none can be guessed', async () => {
  const clientId = 'gateway';
  for (let start = 0; start < 3; start += 1) {
    await using rig = messagingRig(broker.url, { clientId });
    await askEverything(rig);
  }
  const ids = (await exchanged(3 * table.length)).requests.map(idOf);
  expect(new Set(ids).size).toBe(3 * table.length);
  // 122 random bits: RFC 9562, section 5.4
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});
