import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

import { describe, expect, test } from 'vitest';

import { MqttConnection } from '../../../src/mqtt/connection.ts';
import type { ConnectionDeps, Message } from '../../../src/mqtt/connection.ts';
import { BrokenPacket, ConnectionLost, RefusedByBroker } from '../../../src/mqtt/errors.ts';
import { packet, publishPacket } from './packets.ts';
import { connack, first, suback } from './pretend-broker.ts';

const { signal } = new AbortController();

type Answer = (first: number, identifier: readonly number[]) => Uint8Array | undefined;

/** A broker that answers each packet as it is told; what it is told may be held up on the way. */
class Line extends Duplex {
  readonly said: number[] = [];
  readonly #answer: Answer;
  readonly #held: (() => void)[] = [];
  #isStuck = false;

  constructor(answer: Answer) {
    super({ writableHighWaterMark: 1_000 });
    this.#answer = answer;
  }

  /** Nothing that we say leaves any more, or again. */
  stick(isStuck: boolean): void {
    this.#isStuck = isStuck;
    for (const done of this.#held.splice(0)) done();
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const [type = 0] = chunk;
    this.said.push(type);
    // behind the topic, of one letter
    const identifier = type === first.publish ? chunk.subarray(5, 7) : chunk.subarray(2, 4);
    const answer = this.#answer(type, [...identifier]);
    if (answer !== undefined) this.push(answer);
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
  const options = { connect, admits: () => false, onMessage: setup.onMessage ?? ((): void => {}) };
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
    expect(await connection.publish({ topic: 'a', payload: '', retain: false })).toBe(0);
  });

  test.each([
    ['that refuses it', packet(0x20, Buffer.from([0, 5])), RefusedByBroker],
    ['that does not say whether it may enter', packet(0x20, Buffer.from([0])), BrokenPacket],
    ['that goes', Buffer.concat([packet(0x20, Buffer.from([0, 0])), packet(0xe0, Buffer.alloc(0))]), ConnectionLost],
  ])('ends with a broker %s', async (_, greeting, reason) => {
    const ended = open({ greeting }).then(async ({ connection }) => connection.closed);
    expect(await ended.catch((error: unknown) => error)).toBeInstanceOf(reason);
  });

  test('ends where an answer is not that of what was asked', async () => {
    const { connection } = await open({ answer: (_type, identifier) => puback(identifier) });
    await expect(connection.subscribe('a')).rejects.toBeInstanceOf(BrokenPacket);
    expect(await connection.closed).toBeInstanceOf(BrokenPacket);
  });

  // Seen: a search for a free identifier without end, after 65,535 requests whose replies came.
  test('ends where the broker answers nothing that is published', async () => {
    const { connection } = await open();
    for (let count = 0; count < 300 && !connection.isClosed; count += 1) {
      connection.publish({ topic: 'a', payload: '', retain: false }).catch(() => {});
    }
    expect(connection.isClosed).toBe(true);
    expect(await connection.closed).toBeInstanceOf(BrokenPacket);
  });

  // Seen: no ping was ever sent, since a list is not above zero.
  test.each([
    ['twice', [0x13, 0, 9, 0x13, 0, 9]],
    ['cut off', [0x13, 9]],
  ])('ends with a broker that names its keep-alive time %s', async (_, properties) => {
    const greeting = packet(0x20, Buffer.from([0, 0, properties.length, ...properties]));
    await expect(open({ protocolVersion: 5, greeting })).rejects.toBeInstanceOf(BrokenPacket);
  });

  test('lets an answer pass to what another one asked', async () => {
    const { connection, line } = await open({ answer: (_type, identifier) => suback(4, identifier) });
    line.push(puback([0x77, 0x77]));
    expect(await connection.subscribe('a')).toBe(1);
    connection.destroy();
  });

  test('reads no further while its acknowledgements do not leave, and goes on when they do', async () => {
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

  test('keeps to the keep-alive time that the broker asks for', async () => {
    const pinged = Promise.withResolvers<void>();
    const serverKeepAlive = Buffer.from([0x13, 0, 1]);
    const { connection } = await open({
      protocolVersion: 5,
      greeting: packet(0x20, Buffer.concat([Buffer.from([0, 0, serverKeepAlive.byteLength]), serverKeepAlive])),
      answer: (type) => {
        if (type === 0xc0) pinged.resolve();
        return undefined;
      },
    });
    await expect(pinged.promise).resolves.toBeUndefined();
    connection.destroy();
  });

  test('says goodbye, and acknowledges what was meant to be', async () => {
    const { connection, line } = await open();
    line.push(publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(0), qos: 0 }));
    line.push(publishPacket({ protocolVersion: 4, topic: 'a', content: Buffer.alloc(0), qos: 1 }));
    await expect.poll(() => line.said.at(-1)).toBe(0x40);
    connection.end();
    line.push(null);
    expect(await connection.closed).toBeInstanceOf(ConnectionLost);
    expect(line.said).toEqual([first.connect, 0x40, first.disconnect]);
  });
});
