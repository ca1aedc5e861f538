import type { Socket } from 'node:net';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../../src/service/errors.ts';
import { operations } from '../../../../src/service/operations.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { correlationProperty, packet, publishPacket } from '../../mqtt/packets.ts';
import { connack, first, PretendBroker, suback } from '../../mqtt/pretend-broker.ts';
import { messagingRig } from './messaging-rig.ts';

const { signal } = new AbortController();
const thing = { thingId: 'thing-1', apiKey: 'key' };
const patient = { connectMs: 60_000, requestMs: 60_000, unheardMs: 5_000, totalMs: 60_000, transferMs: 60_000 };
const hasty = { connectMs: 500, requestMs: 200, unheardMs: 5_000, totalMs: 1_000, transferMs: 1_000 };

async function failure(url: string, protocolVersion: 4 | 5, deadlines = patient): Promise<unknown> {
  await using rig = messagingRig(url, { protocolVersion, deadlines });
  return await rig.transport.call(operations.currentVersion, thing, signal).catch((error: unknown) => error);
}

/** Lets us in, and takes subscriptions and a goodbye; requests come to the test, by their id. */
function serve(socket: Socket, onRequest: (id: string) => void): void {
  socket.write(connack[4]);
  socket.on('data', (chunk: Buffer) => {
    const [type, , ...id] = chunk;
    if (type === first.subscribe) socket.write(suback(4, id));
    if (type === first.disconnect) socket.end();
    const asked = /"id":"([^"]+)"/.exec(chunk.toString('latin1'))?.[1];
    if (asked !== undefined) onRequest(asked);
  });
}

const PINGREQ = packet(0xc0, Buffer.alloc(0));

describe('a broker', () => {
  test.each([
    ['that speaks HTTP', 5, Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'), 'broker-unsupported'],
    ['that closes the connection', 5, undefined, 'broker-lost'],
    ['that does not know the version', 4, packet(0x20, Buffer.from([0, 1])), 'broker-unsupported'],
    ['that does not know the version', 5, packet(0x20, Buffer.from([0, 0x84, 0])), 'broker-unsupported'],
    ['that is unavailable', 4, packet(0x20, Buffer.from([0, 3])), 'broker-unavailable'],
    ['that is busy', 5, packet(0x20, Buffer.from([0, 0x89, 0])), 'broker-unavailable'],
    ['that forbids', 4, packet(0x20, Buffer.from([0, 5])), 'broker-not-authorized'],
    [
      'that gives our session away',
      5,
      Buffer.concat([connack[5], packet(0xe0, Buffer.from([0x8e, 0]))]),
      'broker-session-taken',
    ],
    ['that sends a packet of 200 MiB', 5, Buffer.from([0x90, 0xff, 0xff, 0xff, 0x63, 0, 0]), 'broker-unsupported'],
  ] as const)('%s is named (MQTT %i)', async (_, protocolVersion, greeting, code) => {
    await using broker = await PretendBroker.start((socket) => {
      if (greeting === undefined) socket.end();
      else socket.write(greeting);
    });
    expect(await failure(broker.url, protocolVersion)).toMatchObject({ code, remedy: 'retry' });
  });

  test('that closes the connection immediately may be another kind of port', async () => {
    await using broker = await PretendBroker.start((socket) => void socket.end());
    expect(await failure(broker.url, 5)).toMatchObject({
      message: expect.stringMatching(/closed the connection before it let us in$/) as string,
      advice: expect.stringContaining('mqtts://') as string,
    });
  });

  test.each([
    ['nothing', Buffer.alloc(0)],
    ['nothing after it let us in', connack[5]],
  ])('that sends %s is named', async (_, greeting) => {
    await using broker = await PretendBroker.start((socket) => void socket.write(greeting));
    expect(await failure(broker.url, 5, hasty)).toMatchObject({ code: 'broker-timeout', remedy: 'retry' });
  });

  test('whose answers are swallowed by a message that never ends is left for a new connection, which is heard', async () => {
    let connections = 0;
    await using broker = await PretendBroker.start((socket) => {
      const isFirst = ++connections === 1;
      serve(socket, (asked) => {
        // Nothing else of the announced 12 KiB arrives.
        if (isFirst) socket.write(Buffer.from([0x30, 0x80, 0x63]));
        const content = Buffer.from(`{"jsonrpc":"2.0","id":"${asked}","result":{"id":"1","name":"one"}}`);
        socket.write(publishPacket({ protocolVersion: 4, topic: 'v1.a1b2.reply.json', content }));
      });
    });
    await using rig = messagingRig(broker.url, { protocolVersion: 4, deadlines: { ...patient, requestMs: 200 } });
    const ask = async () => rig.transport.call(operations.currentVersion, thing, signal);
    await expect(ask()).rejects.toMatchObject({ code: 'broker-timeout', remedy: 'retry' });
    expect(await ask()).toMatchObject({ id: '1' });
    expect(connections).toBe(2);
  });

  test('hears from us while a large message comes, though it cannot answer', async () => {
    await using broker = await PretendBroker.start((socket) => {
      let rest: Buffer | undefined;
      serve(socket, (asked) => {
        const content = Buffer.from(`{"jsonrpc":"2.0","id":"${asked}","result":"${'A'.repeat(100_000)}"}`);
        const message = publishPacket({ protocolVersion: 4, topic: 'v1.a1b2.reply.json', content });
        socket.write(message.subarray(0, 50_000));
        rest = message.subarray(50_000);
      });
      socket.on('data', (chunk: Buffer) => {
        if (rest !== undefined && chunk.includes(PINGREQ)) socket.write(rest);
      });
    });
    await using rig = messagingRig(broker.url, { protocolVersion: 4, keepAliveMs: 1_000 });
    await using text = await rig.transport.firmware('1', asThing(thing), undefined, signal);
    expect(text.totalBytes).toBe(100_002);
  });

  test('may send whatever it likes: there is an error in time, and nothing else', async () => {
    const replies = [4, 5].flatMap((protocolVersion) =>
      ([0, 1] as const).map((qos) =>
        publishPacket({
          protocolVersion: protocolVersion === 4 ? 4 : 5,
          topic: 'v1.a1b2.reply.json',
          qos,
          content: Buffer.from('{"jsonrpc":"2.0","id":"x"}'),
          properties: correlationProperty('x'),
        }),
      ),
    );
    const plain = [
      [0x40, 0, 1],
      [0x40, 0, 1, 0x87],
      [0x90, 0, 1, 0, 1],
      [0xb0, 0, 1, 0],
      [0xd0],
      [0xe0, 0x81, 0],
      [0xf0, 0x18, 0],
    ];
    const packets = [...replies, ...plain.map(([first = 0, ...body]) => packet(first, Buffer.from(body)))];
    const spoiled = fc
      .tuple(fc.constantFrom(...packets), fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 3 }))
      .map(([bytes, changes]) => {
        const changed = Buffer.from(bytes);
        for (const [at, value] of changes) changed[at % changed.byteLength] = value;
        return changed;
      });
    const anything = fc.array(spoiled, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom<4 | 5>(4, 5), anything, async (protocolVersion, messages) => {
        await using broker = await PretendBroker.start((socket) => {
          socket.end(Buffer.concat([connack[protocolVersion], suback(protocolVersion, [0, 1]), ...messages]));
        });
        expect(await failure(broker.url, protocolVersion, hasty)).toBeInstanceOf(ServiceError);
      }),
      { numRuns: 150 },
    );
  });
});
