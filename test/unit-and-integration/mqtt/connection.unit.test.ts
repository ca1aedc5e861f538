import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

import { describe, expect, test, vi } from 'vitest';

import { MqttConnection } from '../../../src/mqtt/connection.ts';
import type { ConnectionDeps, Message } from '../../../src/mqtt/connection.ts';
import {
  MalformedPacketError,
  ConnectionLostError,
  BrokerRefusedError,
  BrokerTimeoutError,
} from '../../../src/mqtt/errors.ts';
import { packet, publishPacket } from './packets.ts';
import { connack, first, suback } from './pretend-broker.ts';

const { signal } = new AbortController();

type Answer = (first: number, identifier: readonly number[]) => Uint8Array | undefined;

/** A broker with prepared replies to each packet; they may be delayed on the way. */
class Line extends Duplex {
  readonly said: number[] = [];
  readonly #answer: Answer;
  readonly #held: (() => void)[] = [];
  #isStuck = false;

  constructor(answer: Answer) {
    super({ writableHighWaterMark: 1_000 });
    this.#answer = answer;
  }

  /** Blocks or unblocks our output. */
  stick(isStuck: boolean): void {
    this.#isStuck = isStuck;
    for (const done of this.#held.splice(0)) done();
  }

  override _read(): void {}

  /** Packets are short, and may come together. */
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    for (let rest = chunk; rest.byteLength > 0; rest = rest.subarray(2 + (rest[1] ?? 0))) {
      const [type = 0] = rest;
      this.said.push(type);
      // after the topic, of one letter
      const identifier = type === first.publish ? rest.subarray(5, 7) : rest.subarray(2, 4);
      const answer = this.#answer(type, [...identifier]);
      if (answer !== undefined) this.push(answer);
    }
    if (this.#isStuck) this.#held.push(done);
    else done();
  }
}

interface Setup {
  readonly protocolVersion?: 4 | 5;
  readonly greeting?: Uint8Array;
  readonly answer?: Answer;
  readonly onMessage?: (message: Message) => void;
}

async function open(setup: Setup = {}): Promise<{ connection: MqttConnection; line: Line }> {
  const { protocolVersion = 4, greeting = connack[protocolVersion], answer = () => undefined } = setup;
  const line = new Line((type, identifier) => (type === first.connect ? greeting : answer(type, identifier)));
  const connect: ConnectionDeps['connect'] = { protocolVersion, clientId: 'x', keepalive: 60 };
  const onMessage = setup.onMessage ?? ((): void => {});
  const options = { connect, admits: () => false, onMessage };
  const connection = await MqttConnection.open(line as unknown as Socket, options, signal);
  return { connection, line };
}

function puback(identifier: readonly number[], ...reason: readonly number[]): Buffer {
  return packet(0x40, Buffer.from([...identifier, ...reason]));
}

describe('a connection', () => {
  test('tells the broker’s reason code of each message and topic', async () => {
    using connection = (
      await open({
        answer: (type, identifier) => {
          if (type === first.subscribe) return suback(4, identifier, 0x80);
          return type === first.publish ? puback(identifier) : undefined;
        },
      })
    ).connection;
    expect(await connection.subscribe('a/#')).toBe(0x80);
    expect(await connection.publish({ topic: 'a', payload: '' })).toBe(0);
  });

  test.each([
    ['that refuses it', packet(0x20, Buffer.from([0, 5])), BrokerRefusedError],
    ['that does not say whether it may enter', packet(0x20, Buffer.from([0])), MalformedPacketError],
    [
      'that goes',
      Buffer.concat([packet(0x20, Buffer.from([0, 0])), packet(0xe0, Buffer.alloc(0))]),
      ConnectionLostError,
    ],
  ])('ends with a broker %s', async (_, greeting, reason) => {
    const ended = open({ greeting }).then(async ({ connection }) => connection.closed);
    expect(await ended.catch((error: unknown) => error)).toBeInstanceOf(reason);
  });

  test('ends after a reply to another request', async () => {
    const { connection } = await open({ answer: (_type, identifier) => puback(identifier) });
    await expect(connection.subscribe('a')).rejects.toBeInstanceOf(MalformedPacketError);
    expect(await connection.closed).toBeInstanceOf(MalformedPacketError);
  });

  // Regression: a search for a free identifier without end, after 65,535 requests whose replies came.
  test('ends where the broker answers nothing that is published', async () => {
    const { connection } = await open();
    for (let count = 0; count < 300 && !connection.isClosed; count += 1) {
      connection.publish({ topic: 'a', payload: '' }).catch(() => {});
    }
    expect(connection.isClosed).toBe(true);
    expect(await connection.closed).toBeInstanceOf(MalformedPacketError);
  });

  // Regression: no ping was ever sent, since a list is not above zero.
  test.each([
    ['twice', [0x13, 0, 9, 0x13, 0, 9]],
    ['cut off', [0x13, 9]],
  ])('ends with a broker that names its keep-alive time %s', async (_, properties) => {
    const greeting = packet(0x20, Buffer.from([0, 0, properties.length, ...properties]));
    await expect(open({ protocolVersion: 5, greeting })).rejects.toBeInstanceOf(MalformedPacketError);
  });

  test('lets an answer pass to what another one asked', async () => {
    const { connection, line } = await open({ answer: (_type, identifier) => suback(4, identifier) });
    line.push(puback([0x77, 0x77]));
    expect(await connection.subscribe('a')).toBe(1);
    connection.destroy();
  });

  test('stops reading while its acknowledgements are blocked, and then resumes', async () => {
    let heard = 0;
    const { connection, line } = await open({ onMessage: () => (heard += 1) });
    const one = publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(0) });
    line.stick(true);
    const many = Buffer.concat(Array.from({ length: 100 }, () => one));
    for (let count = 0; count < 20; count += 1) line.push(many);
    await expect.poll(() => line.isPaused()).toBe(true);
    expect(heard).toBeLessThan(1_000);
    line.stick(false);
    await expect.poll(() => heard).toBe(2_000);
    connection.destroy();
  });

  test('resolves with the reason why no subscriber received a message', async () => {
    const { connection } = await open({
      protocolVersion: 5,
      answer: (type, identifier) => (type === first.publish ? puback(identifier, 0x10, 0) : undefined),
    });
    expect(await connection.publish({ topic: 'a', payload: '' })).toBe(0x10);
    connection.destroy();
  });

  test('resolves with the reason why a message was refused', async () => {
    const { connection } = await open({
      protocolVersion: 5,
      answer: (type, identifier) => (type === first.publish ? puback(identifier, 0x87, 0) : undefined),
    });
    expect(await connection.publish({ topic: 'a', payload: '' })).toBe(0x87);
    connection.destroy();
  });

  test('sends DISCONNECT after pending acknowledgements', async () => {
    const { connection, line } = await open();
    line.push(publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(0), qos: 0 }));
    line.push(publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(0), qos: 1 }));
    await expect.poll(() => line.said.at(-1)).toBe(0x40);
    connection.end();
    line.push(null);
    expect(await connection.closed).toBeInstanceOf(ConnectionLostError);
    expect(line.said).toEqual([first.connect, 0x40, first.disconnect]);
  });
});

describe('the keep-alive of a connection', () => {
  const PINGREQ = 0xc0;
  const serverKeepAlive = Buffer.from([0x13, 0, 20]);
  const asked = packet(0x20, Buffer.concat([Buffer.from([0, 0, serverKeepAlive.byteLength]), serverKeepAlive]));

  /** Advances the time by seconds, one by one, and calls `each` in each of them. Returns the seconds of pings. */
  async function pass(setup: Setup, seconds: number, each: (line: Line, second: number) => void): Promise<unknown> {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] });
    try {
      const { connection, line } = await open(setup);
      const pings: number[] = [];
      let silentAt: number | undefined;
      for (let second = 1; second <= seconds; second += 1) {
        const { length } = line.said;
        await vi.advanceTimersByTimeAsync(1_000);
        if (connection.isClosed) silentAt ??= second;
        each(line, second);
        await vi.advanceTimersByTimeAsync(0);
        if (line.said.slice(length).includes(PINGREQ)) pings.push(second);
      }
      connection.destroy();
      await vi.advanceTimersByTimeAsync(0);
      expect(vi.getTimerCount()).toBe(0);
      return { pings, silentAt, isSilent: (await connection.closed) instanceof BrokerTimeoutError };
    } finally {
      vi.useRealTimers();
    }
  }

  const pong = packet(0xd0, Buffer.alloc(0));
  const answer: Answer = (type) => (type === PINGREQ ? pong : undefined);

  test('sends a ping within the keep-alive time of a broker that answers', async () => {
    expect(await pass({ answer }, 200, () => {})).toEqual({
      pings: [60, 120, 180],
      silentAt: undefined,
      isSilent: false,
    });
  });

  test('ends with a broker that sends nothing for half the time after a ping', async () => {
    expect(await pass({}, 100, () => {})).toEqual({ pings: [60], silentAt: 90, isSilent: true });
  });

  test('uses the time that the broker asks for', async () => {
    expect(await pass({ protocolVersion: 5, greeting: asked }, 35, () => {})).toEqual({
      pings: [20],
      silentAt: 30,
      isSilent: true,
    });
  });

  test('continues while a long message comes, and still sends in time', async () => {
    const long = publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(60_000) });
    const trickle = (line: Line, second: number): void => void line.push(long.subarray(second - 1, second));
    const { pings, silentAt } = (await pass({}, 400, trickle)) as { pings: number[]; silentAt: unknown };
    expect(silentAt).toBeUndefined();
    expect(Math.max(...pings.map((second, at) => second - (pings[at - 1] ?? 0)))).toBeLessThanOrEqual(60);
  });
});
