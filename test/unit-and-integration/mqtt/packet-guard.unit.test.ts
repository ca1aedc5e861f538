import type { Socket } from 'node:net';
import { Duplex, PassThrough, Readable } from 'node:stream';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { MalformedPacketError } from '../../../src/mqtt/errors.ts';
import { LARGE_BYTES, PacketGuard } from '../../../src/mqtt/packet-guard.ts';
import type { SkippedMessage } from '../../../src/mqtt/packet-guard.ts';
import { anyPlaces, cut } from './blocks.ts';
import { correlationProperty, packet, publishPacket } from './packets.ts';
import { connack } from './pretend-broker.ts';

const topic = 'v1.a1b2.reply.json';

interface Passed {
  readonly packets: readonly Buffer[];
  readonly skipped: readonly SkippedMessage[];
  /** Data sent to the broker. */
  readonly written: Buffer;
}

/** Throws the error of the guard. */
async function pass(chunks: readonly Uint8Array[], admits = false): Promise<Passed> {
  const outgoing = new PassThrough();
  const socket = Duplex.from({ readable: Readable.from(chunks), writable: outgoing }) as unknown as Socket;
  const skipped: SkippedMessage[] = [];
  const guard = new PacketGuard(socket, { admits: () => admits, onSkipped: (message) => skipped.push(message) });
  const packets = await Array.fromAsync(guard as AsyncIterable<Buffer>);
  return { packets, skipped, written: (outgoing.read() as Buffer | null) ?? Buffer.alloc(0) };
}

function textOfBytes(length: number): Buffer {
  return Buffer.alloc(length, 'some text of a length that is prime, so that no block looks like another');
}

const answers = [packet(0x40, Buffer.from([0x12, 0x34])), packet(0xd0, Buffer.alloc(0)), packet(0xe0, Buffer.alloc(0))];

describe('PacketGuard', () => {
  test('passes on complete packets, one per chunk, for any input chunks', async () => {
    const message = fc
      .record({
        protocolVersion: fc.constantFrom<4 | 5>(4, 5),
        size: fc.constantFrom(0, 1, LARGE_BYTES - 60, LARGE_BYTES, LARGE_BYTES + 70_001, 1_100_000),
        qos: fc.constantFrom<0 | 1>(0, 1),
        retain: fc.boolean(),
      })
      .map(({ size, ...how }) =>
        publishPacket({ ...how, topic, properties: correlationProperty('id'), content: textOfBytes(size) }),
      );
    const packets = fc.array(fc.oneof(fc.constantFrom(...answers), message), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(packets, anyPlaces, async (sent, places) => {
        const all = [connack[4], ...sent];
        const passed = await pass(cut(Buffer.concat(all), places), true);
        expect(passed.packets.map((one, index) => one.equals(all[index] ?? Buffer.of(1)))).toEqual(all.map(() => true));
        expect(passed.skipped).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  test('copies a packet that comes in single bytes once', async () => {
    const whole = publishPacket({ protocolVersion: 4, topic, content: textOfBytes(60_000) });
    const bytes = Array.from(whole, (_, at) => whole.subarray(at, at + 1));
    const { packets } = await pass([connack[4], ...bytes]);
    expect(packets[1]?.equals(whole)).toBe(true);
    // its own memory, of exactly its size
    expect(packets[1]?.buffer.byteLength).toBe(whole.byteLength);
  });

  test('skips a large message that is not wanted, and acknowledges it', async () => {
    const content = Buffer.concat([Buffer.from('the start'), Buffer.alloc(300_000, ' '), Buffer.from('the end')]);
    await fc.assert(
      fc.asyncProperty(fc.constantFrom<0 | 1>(0, 1), fc.boolean(), anyPlaces, async (qos, retain, places) => {
        const long = publishPacket({ protocolVersion: 4, topic, content, qos, retain });
        const { packets, skipped, written } = await pass([connack[4], ...cut(long, places), ...answers]);
        expect(packets).toEqual([connack[4], ...answers]);
        expect(skipped).toMatchObject([{ isRetained: retain }]);
        expect(skipped[0]?.bytes).toBeGreaterThan(content.byteLength);
        expect(skipped[0]?.sample.byteLength).toBeLessThan(80_000);
        expect(skipped[0]?.sample.toString('latin1')).toMatch(/v1\.a1b2\.reply\.json[^]{0,2}the start .* the end$/);
        expect([...written]).toEqual(qos === 0 ? [] : [0x40, 2, 0, 7]);
      }),
      { numRuns: 30 },
    );
  });

  test('acknowledges a long message with the longest topic', async () => {
    const long = publishPacket({ protocolVersion: 4, topic: 't'.repeat(65_535), content: textOfBytes(100_000) });
    const { skipped, written } = await pass([connack[4], long]);
    expect(skipped).toHaveLength(1);
    expect([...written]).toEqual([0x40, 2, 0, 7]);
  });

  test.each([
    ['a large packet that is not a message', packet(0x40, Buffer.alloc(LARGE_BYTES))],
    ['a message of QoS 2', publishPacket({ protocolVersion: 5, topic, content: Buffer.alloc(0), qos: 2 })],
    ['a large message of QoS 2', publishPacket({ protocolVersion: 5, topic, content: textOfBytes(70_000), qos: 2 })],
    ['a message of QoS 3', packet(0x36, Buffer.from([0, 1, 0x61, 0, 1]))],
    ['a packet that only a client sends', packet(0x82, Buffer.alloc(4))],
    ['a packet with flags that only a message has', packet(0x42, Buffer.from([0, 1]))],
    ['an answer to a request that was never made', packet(0xb0, Buffer.from([0, 1, 0]))],
    ['AUTH', packet(0xf0, Buffer.from([0x18, 0]))],
    ['a second answer to CONNECT, by its first byte', Buffer.from([0x20])],
    ['a length without end', Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x01])],
    ['an acknowledgement without an identifier', packet(0x40, Buffer.from([1]))],
    ['a subscription’s acknowledgement without an identifier', packet(0x90, Buffer.alloc(0))],
    ['a message without an identifier', packet(0x32, Buffer.from([0, 1, 0x61, 0]))],
    ['a long message without an identifier', packet(0x32, Buffer.alloc(65_536, 0xff))],
    ['a message without a topic', packet(0x30, Buffer.from([0]))],
    ['a message whose topic is longer than itself', packet(0x30, Buffer.from([0, 9, 0x61]))],
  ])('refuses %s', async (_, bytes) => {
    await expect(pass([connack[5], bytes])).rejects.toBeInstanceOf(MalformedPacketError);
  });

  test.each([
    ['HTTP', Buffer.from('HTTP/1.1 400 Bad Request')],
    ['a CONNACK without a reason', packet(0x20, Buffer.from([0]))],
    ['a message', publishPacket({ protocolVersion: 5, topic, content: Buffer.alloc(0) })],
  ])('refuses a broker that starts with %s', async (_, bytes) => {
    await expect(pass([bytes])).rejects.toBeInstanceOf(MalformedPacketError);
  });
});
