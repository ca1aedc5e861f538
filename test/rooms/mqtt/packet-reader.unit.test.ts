import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { BrokenPacket } from '../../../src/mqtt/errors.ts';
import { LARGE_BYTES } from '../../../src/mqtt/packet-head.ts';
import { PacketReader } from '../../../src/mqtt/packet-reader.ts';
import type { AnnouncedMessage, Content, Received } from '../../../src/mqtt/packet-reader.ts';
import { anyPlaces, cut } from './blocks.ts';
import { correlationProperty, packet, publishPacket } from './packets.ts';
import { connack } from './pretend-broker.ts';

const topic = 'v1.a1b2.reply.json';

interface Read {
  readonly received: readonly Received[];
  readonly contents: readonly Content[];
  readonly announced: readonly AnnouncedMessage[];
}

function read(chunks: readonly Uint8Array[], protocolVersion: 4 | 5, admits = true): Read {
  const announced: AnnouncedMessage[] = [];
  const reader = new PacketReader(protocolVersion, (message) => {
    announced.push(message);
    return admits;
  });
  expect([...reader.push(connack[protocolVersion])]).toMatchObject([{ packet: { cmd: 'connack' } }]);
  const received = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  expect(reader.isBusy).toBe(false);
  const contents = received.flatMap((one) => (one.content === undefined ? [] : [one.content]));
  return { received, contents, announced };
}

function bytesOf(content: Content | undefined): Buffer {
  if (content?.kind !== 'whole') throw new Error('not whole');
  return content.payload.join(0, content.payload.byteLength);
}

function textOfBytes(length: number): Buffer {
  return Buffer.alloc(length, 'some text of a length that is prime, so that no block looks like another');
}

/** Topic `a`, no identifier, and a length of the properties whose last digit is given: it counts 16 KiB each. */
function withPropertiesLength(bodyBytes: number, lastDigit: number): Buffer {
  return Buffer.concat([Buffer.from([0, 1, 0x61, 0xff, 0xff, lastDigit]), Buffer.alloc(bodyBytes)]);
}

const version = fc.constantFrom<4 | 5>(4, 5);

/** What a broker answers with, and how it is read. */
const answers = [
  [packet(0x40, Buffer.from([0x12, 0x34])), { cmd: 'puback', messageId: 0x1234 }],
  [packet(0xd0, Buffer.alloc(0)), { cmd: 'pingresp' }],
  [packet(0xe0, Buffer.alloc(0)), { cmd: 'disconnect' }],
] as const;

describe('PacketReader', () => {
  test('reads packets, small and large, however they are cut', () => {
    const size = fc.constantFrom(0, 1, LARGE_BYTES - 60, LARGE_BYTES, LARGE_BYTES + 70_001, 1_100_000);
    const message = fc.record({ size, qos: fc.constantFrom<0 | 1>(0, 1), retain: fc.boolean() });
    fc.assert(
      fc.property(
        version,
        fc.array(fc.oneof(fc.constantFrom(...answers), message), { maxLength: 5 }),
        anyPlaces,
        (protocolVersion, parts, places) => {
          const packets: Buffer[] = [];
          const expected: unknown[] = [];
          const contents: Buffer[] = [];
          for (const part of parts) {
            if (!('size' in part)) {
              packets.push(part[0]);
              expected.push({ packet: part[1] });
              continue;
            }
            const { qos, retain } = part;
            const content = textOfBytes(part.size);
            const properties = correlationProperty('id');
            packets.push(publishPacket({ qos, retain, protocolVersion, topic, properties, content }));
            const correlated = protocolVersion === 5 ? { properties: { correlationData: Buffer.from('id') } } : {};
            expected.push({ packet: { cmd: 'publish', topic, qos, retain, ...correlated } });
            contents.push(content);
          }
          const result = read(cut(Buffer.concat(packets), places), protocolVersion);
          expect(result.received).toMatchObject(expected);
          expect(
            result.contents.map(bytesOf).map((bytes, index) => bytes.equals(contents[index] ?? Buffer.of(1))),
          ).toEqual(contents.map(() => true));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('keeps no more of a small packet that comes in single bytes than it will have', () => {
    const whole = publishPacket({ protocolVersion: 4, topic, content: textOfBytes(60_000) });
    expect(
      read(
        Array.from(whole, (_, at) => whole.subarray(at, at + 1)),
        4,
      ).contents.map(bytesOf),
    ).toEqual([textOfBytes(60_000)]);
  });

  test('asks before it keeps anything, and says of which message', () => {
    const whole = publishPacket({ protocolVersion: 5, topic: 'ä/b', content: Buffer.alloc(100_000), retain: true });
    expect(read([whole], 5).announced).toEqual([{ topic: 'ä/b', retain: true, contentBytes: 100_000 }]);
  });

  test('keeps only the beginning and the end of what is not wanted', () => {
    fc.assert(
      fc.property(anyPlaces, (places) => {
        const content = Buffer.concat([
          Buffer.from('the beginning'),
          Buffer.alloc(300_000, ' '),
          Buffer.from('the end'),
        ]);
        const whole = publishPacket({ protocolVersion: 4, topic, content });
        const [skipped] = read(cut(whole, places), 4, false).contents;
        if (skipped?.kind !== 'skipped') throw new Error('not skipped');
        expect(skipped.contentBytes).toBe(content.byteLength);
        expect(skipped.sample.byteLength).toBe(2 * 4096);
        expect(skipped.sample.toString()).toMatch(/^the beginning .* the end$/);
      }),
      { numRuns: 30 },
    );
  });

  const large = publishPacket({ protocolVersion: 5, topic, content: Buffer.alloc(LARGE_BYTES) });
  test.each([
    ['a large packet that is no message', packet(0x40, Buffer.alloc(LARGE_BYTES))],
    ['a message of QoS 2', publishPacket({ protocolVersion: 5, topic, content: Buffer.alloc(0), qos: 2 })],
    ['a large message of QoS 2', publishPacket({ protocolVersion: 5, topic, content: large, qos: 2 })],
    ['a packet that only a client sends', packet(0x82, Buffer.alloc(4))],
    ['a packet with flags that only a message has', packet(0x42, Buffer.from([0, 1]))],
    ['an answer to what was never asked', packet(0xb0, Buffer.from([0, 1, 0]))],
    ['a second answer to CONNECT, by its first byte', Buffer.from([0x20])],
    ['a length without end', Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x01])],
    ['an acknowledgement without an identifier', packet(0x40, Buffer.from([1]))],
    ['a subscription’s acknowledgement without an identifier', packet(0x90, Buffer.alloc(0))],
    ['a message without an identifier', packet(0x32, Buffer.from([0, 1, 0x61, 0]))],
    ['a message without a topic', packet(0x30, Buffer.from([0]))],
    ['properties longer than their packet', packet(0x30, withPropertiesLength(70_000, 0x7f))],
    ['properties without end', packet(0x30, withPropertiesLength(3_000_000, 0x40))],
  ])('refuses %s', (_, bytes) => {
    expect(() => read([bytes], 5)).toThrow(BrokenPacket);
  });

  test('refuses whoever does not begin as a broker does', () => {
    const reader = new PacketReader(5, () => true);
    expect(() => [...reader.push(Buffer.from('HTTP/1.1 400 Bad Request'))]).toThrow(BrokenPacket);
  });
});
