import { describe, expect, test } from 'vitest';

import type { ServiceError } from '../../../../src/service/errors.ts';
import { Broker } from '../../../../src/service/messaging/broker/broker.ts';
import { MessagingTransport } from '../../../../src/service/messaging/transport.ts';
import { operations } from '../../../../src/service/operations.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import type { Clock } from '../../../../src/system/time/clock.ts';
import { packet } from '../../mqtt/packets.ts';
import { connack, first, PretendBroker, suback } from '../../mqtt/pretend-broker.ts';
import { RecordingLog } from '../recording-log.ts';
import { messagingRig, messagingSettings } from './messaging-rig.ts';

const { signal } = new AbortController();
const thing = { thingId: 'thing-1', apiKey: 'key' };

/** Returns packets in their order of arrival, each decoded separately: they are small and few. */
function packetsIn(bytes: Buffer): readonly Buffer[] {
  const packets: Buffer[] = [];
  for (let rest = bytes; rest.byteLength > 0;) {
    const [, low = 0, high = 0] = rest;
    const end = low < 128 ? 2 + low : 3 + (low & 127) + high * 128;
    packets.push(rest.subarray(0, end));
    rest = rest.subarray(end);
  }
  return packets;
}

describe.each([5, 4] as const)('with MQTT protocol version %i', (protocolVersion) => {
  test('no request is sent before the broker accepts the subscription to the replies', async () => {
    const came: number[] = [];
    await using broker = await PretendBroker.start((socket, connect) => {
      came.push(...packetsIn(connect).map(([type = 0]) => type));
      socket.write(connack[protocolVersion]);
      socket.on('data', (bytes: Buffer) => {
        for (const [type = 0, , ...id] of packetsIn(bytes)) {
          came.push(type);
          // a premature request would have arrived before this
          if (type === first.subscribe) setImmediate(() => socket.write(suback(protocolVersion, id)));
          if (type === first.publish) socket.destroy();
        }
      });
    });
    await using rig = messagingRig(broker.url, { protocolVersion });
    await expect(rig.transport.call(operations.currentVersion, thing, signal)).rejects.toMatchObject({
      code: 'broker-lost',
    });
    expect(came.slice(0, 3)).toEqual([first.connect, first.subscribe, first.publish]);
  });

  test('no request is sent if the broker rejects the subscription to the replies', async () => {
    const came: number[] = [];
    await using broker = await PretendBroker.start((socket) => {
      socket.write(connack[protocolVersion]);
      socket.on('data', (bytes: Buffer) => {
        for (const [type = 0, , ...id] of packetsIn(bytes)) {
          came.push(type);
          const refused = suback(protocolVersion, id, protocolVersion === 5 ? 0x87 : 0x80);
          if (type === first.subscribe) setImmediate(() => socket.write(refused));
        }
      });
    });
    await using rig = messagingRig(broker.url, { protocolVersion });
    await expect(rig.transport.call(operations.currentVersion, thing, signal)).rejects.toMatchObject({
      code: 'broker-not-authorized',
      message: expect.stringContaining('does not let us read v1.a1b2.reply.json') as string,
    });
    expect(came).not.toContain(first.publish);
  });
});

describe.each([5, 4] as const)('a broker that permits no more than is needed, MQTT %i', (protocolVersion) => {
  test('is still requested, and a rejected operation is reported', async () => {
    await using broker = await PretendBroker.start((socket) => {
      socket.write(connack[protocolVersion]);
      socket.on('data', (bytes: Buffer) => {
        for (const bits of packetsIn(bytes)) {
          const [type = 0, , ...id] = bits;
          const refused = protocolVersion === 5 ? 0x87 : 0x80;
          const reason = bits.includes('gateways/wake') ? refused : 1;
          if (type === first.subscribe) socket.write(suback(protocolVersion, id, reason));
          if (type === first.publish) socket.destroy();
        }
      });
    });
    const log = new RecordingLog();
    const { topics } = messagingSettings(broker.url);
    const settings = messagingSettings(broker.url, { protocolVersion, topics: { ...topics, wake: 'gateways/wake' } });
    await using transport = new MessagingTransport(settings, { clock: systemClock, random: () => 1, log });
    transport.attend({ onWake: () => {}, onProgress: () => {} });
    await expect(transport.call(operations.currentVersion, thing, signal)).rejects.toMatchObject({
      code: 'broker-lost',
    });
    expect(log.lines).toContainEqual({
      level: 'warn',
      fields: expect.objectContaining({ code: 'broker-not-authorized' }) as unknown,
      message: expect.stringContaining('does not let us read gateways/wake') as string,
    });
  });
});

/** Returns this number of pauses with an unavailable broker, with lengths from `random`. */
async function pausesOf(
  url: string,
  count: number,
  random: () => number,
  log = new RecordingLog(),
): Promise<readonly number[]> {
  const slept: number[] = [];
  const enough = Promise.withResolvers<void>();
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => 0,
    sleep: async (ms, until) => {
      slept.push(ms);
      if (slept.length < count) return;
      enough.resolve();
      await systemClock.sleep(2 ** 31 - 1, until);
    },
  };
  const reconnect = { firstDelayMs: 1_000, maxDelayMs: 120_000 };
  const events = {
    onUp: () => {},
    onMessage: () => {},
    admits: () => false,
    onProgress: () => {},
    onNap: () => {},
  };
  const settings = messagingSettings(url, { reconnect });
  await using broker = new Broker(settings, events, { clock, random, log });
  broker.connect();
  await enough.promise;
  return slept;
}

describe('a broker that cannot be had', () => {
  test('is tried again without end, with pauses of full jitter that double up to a bound', async () => {
    const gone = await PretendBroker.start(() => {});
    await gone[Symbol.asyncDispose]();
    const ceilings = [1, 2, 4, 8, 16, 32, 64, 120, 120, 120].map((seconds) => seconds * 1_000);
    expect(await pausesOf(gone.url, 10, () => 0.999)).toEqual(ceilings.map((ceiling) => 0.999 * ceiling));
    expect(await pausesOf(gone.url, 3, () => 0)).toEqual([0, 0, 0]);
  });

  test('is reported once for each reason, however long it lasts', async () => {
    const log = new RecordingLog();
    let greetings = 0;
    await using broker = await PretendBroker.start((socket) => {
      greetings += 1;
      socket.end(greetings === 3 ? packet(0x20, Buffer.from([0, 0x89, 0])) : Buffer.alloc(0));
    });
    await pausesOf(broker.url, 5, () => 0, log);
    expect(log.lines.map(({ level, fields }) => [level, fields['code']])).toEqual([
      ['warn', 'broker-lost'],
      ['debug', 'broker-lost'],
      ['warn', 'broker-unavailable'],
      ['warn', 'broker-lost'],
      ['debug', 'broker-lost'],
    ]);
  });

  test('because another client has our id is tried again after a long pause only', async () => {
    await using broker = await PretendBroker.start((socket) => {
      socket.end(Buffer.concat([connack[5], packet(first.disconnect, Buffer.from([0x8e, 0]))]));
    });
    expect(await pausesOf(broker.url, 1, () => 0.5)).toEqual([60_000]);
  });
});

test('a client with a status topic is online from the first connection on, for any operation', async () => {
  const said = Promise.withResolvers<string>();
  await using broker = await PretendBroker.start((socket, connect) => {
    said.resolve(connect.toString('latin1'));
    socket.destroy();
  });
  const { topics } = messagingSettings(broker.url);
  const settings = messagingSettings(broker.url, { topics: { ...topics, status: 'gateways/status' } });
  const context = { clock: systemClock, random: () => 1, log: new RecordingLog() };
  await using transport = new MessagingTransport(settings, context);
  transport.attend({ onWake: () => {}, onProgress: () => {} });
  const failed = (await transport
    .call(operations.currentVersion, thing, signal)
    .catch((error: unknown) => error)) as ServiceError;
  expect(failed.code).toBe('broker-lost');
  expect(await said.promise).toContain('gateways/status');
});
