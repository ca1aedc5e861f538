import type { Socket } from 'node:net';

import { describe, expect, test, vi } from 'vitest';

import { mqttSource } from '../../../../src/telemetry/sources/mqtt.ts';
import { noLogin } from '../../mqtt/no-login.ts';
import { packet, publishPacket } from '../../mqtt/packets.ts';
import { connack, first, PretendBroker, suback } from '../../mqtt/pretend-broker.ts';

interface Heard {
  readonly readings: readonly unknown[];
  readonly dropped: readonly string[];
  readonly failure: unknown;
}

/** Until the source ends, which it does at the latest with its broker. `isAdmitted`: false if readings come too fast. */
async function listen(
  url: string,
  { topic = 'a', source = mqttSource({ ...noLogin, url, topic, retained: 'once' }), isAdmitted = true } = {},
): Promise<Heard> {
  const readings: unknown[] = [];
  const dropped: string[] = [];
  const intake = {
    take: (read: () => unknown) => void (isAdmitted && readings.push(read())),
    connected: () => {},
    drop: (_: string, why: string) => void dropped.push(why),
    rest: () => undefined,
  };
  const failure = await source.run(intake, AbortSignal.timeout(60_000)).catch((error: unknown) => error);
  return { readings, dropped, failure };
}

/** Accepts the connection, answers a subscription with this, sends this, and disconnects. */
function broker(granted: number, ...said: readonly Uint8Array[]): (socket: Socket) => void {
  return (socket) => {
    socket.write(connack[4]);
    socket.on('data', ([type, , ...identifier]: Buffer) => {
      if (type === first.subscribe) socket.end(Buffer.concat([suback(4, identifier, granted), ...said]));
    });
  };
}

function message(content: string | Buffer): Buffer {
  return publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.from(content) });
}

test.each([
  ['does not let us in: Bad username or password', (socket: Socket) => socket.end(packet(0x20, Buffer.from([0, 4])))],
  ['refuses the topic', broker(0x80)],
  ['the connection was lost', broker(1)],
  ['does not respond as a broker', (socket: Socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ['that no one asked for', broker(1, packet(0xf0, Buffer.alloc(0)))],
])('it is told that %s', async (why, greet) => {
  await using pretended = await PretendBroker.start(greet);
  expect((await listen(pretended.url)).failure).toMatchObject({
    code: 'source-failed',
    message: expect.stringContaining(why) as string,
  });
});

// Regression: waited for ever, while the broker answered every ping.
test('reports that the broker answers another subscription', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    await using pretended = await PretendBroker.start((socket) => {
      socket.write(connack[4]);
      socket.on('data', ([type]: Buffer) => {
        if (type !== first.subscribe) return;
        socket.write(suback(4, [0x77, 0x77]));
        vi.advanceTimersByTime(11_000);
      });
    });
    expect((await listen(pretended.url)).failure).toMatchObject({
      message: expect.stringContaining('no answer to the subscription') as string,
    });
  } finally {
    vi.useRealTimers();
  }
});

test('a large message is dropped as it is announced, and those around it are read', async () => {
  await using pretended = await PretendBroker.start(
    broker(1, message('1'), message(Buffer.alloc(3_000_000)), message('2')),
  );
  const { readings, dropped } = await listen(pretended.url, { topic: 'a/+/#' });
  expect(readings).toEqual([1, 2]);
  expect(dropped).toEqual(['a message longer than 65536 bytes']);
});

describe('of messages that the broker kept', () => {
  const kept = (content: string, topic = 'a'): Buffer =>
    publishPacket({ protocolVersion: 4, topic, content: Buffer.from(content), retain: true });

  /** Connects as often as the broker has something to send, and returns the readings of each connection. */
  async function connect(
    retained: 'once' | 'skip',
    sent: readonly (readonly Uint8Array[])[],
    admitted: readonly boolean[] = [],
  ): Promise<unknown> {
    let connections = 0;
    await using pretended = await PretendBroker.start((socket) => {
      broker(1, ...(sent[connections] ?? []))(socket);
      connections += 1;
    });
    const source = mqttSource({ ...noLogin, url: pretended.url, topic: '#', retained });
    const readings: unknown[] = [];
    for (const index of sent.keys()) {
      readings.push((await listen(pretended.url, { source, isAdmitted: admitted[index] ?? true })).readings);
    }
    return readings;
  }

  test('takes each once', async () => {
    expect(await connect('once', [[kept('1')], [kept('1')], [kept('1'), message('1')]])).toEqual([[1], [], [1]]);
  });

  test('takes a new one published during an outage', async () => {
    expect(await connect('once', [[kept('1'), message('2')], [kept('2')], [kept('3')]])).toEqual([[1, 2], [], [3]]);
  });

  test('tells topics apart', async () => {
    const both = [kept('1'), kept('1', 'b')];
    expect(await connect('once', [both, both])).toEqual([[1, 1], []]);
  });

  test('takes those later that came too fast', async () => {
    expect(await connect('once', [[kept('1')], [kept('1')]], [false, true])).toEqual([[], [1]]);
  });

  test('takes none if it is to skip them', async () => {
    expect(await connect('skip', [[kept('1'), message('2')], [kept('3')]])).toEqual([[2], []]);
  });
});

test('refuses another unit than the first one of the topic', async () => {
  const other = publishPacket({ protocolVersion: 4, topic: 'b', content: Buffer.from('2 V') });
  await using pretended = await PretendBroker.start(broker(1, message('950 mV'), other, message('1.02 V')));
  const { readings, failure } = await listen(pretended.url);
  expect(readings).toEqual([950, 2]);
  expect(failure).toMatchObject({ message: 'the unit was mV before: "1.02 V"' });
});

test('drops a message whose topic is longer than any that can be configured', async () => {
  const long = publishPacket({ protocolVersion: 4, topic: 't'.repeat(2_000), content: Buffer.from('1') });
  await using pretended = await PretendBroker.start(broker(1, long, message('2')));
  const { readings, dropped } = await listen(pretended.url, { topic: '#' });
  expect(readings).toEqual([2]);
  expect(dropped).toEqual([expect.stringContaining('a topic longer than 1024 characters')]);
});
