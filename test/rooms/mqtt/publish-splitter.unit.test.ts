import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { BrokenPacket, LARGE_BYTES } from '../../../src/mqtt/packet-head.ts';
import { PublishSplitter } from '../../../src/mqtt/publish-splitter.ts';
import type { AnnouncedMessage, Content } from '../../../src/mqtt/publish-splitter.ts';
import { anyPlaces, cut } from './blocks.ts';
import { correlationProperty, packet, publishPacket } from './packets.ts';

const TICKET = Buffer.from('a ticket, 16 byt');
const topic = 'v1.a1b2.reply.json';

const accepted = packet(0x20, Buffer.from([0, 0, 0]));

interface Split {
  /** Everything that the client would read. */
  readonly passed: Buffer;
  readonly contents: readonly Content[];
  readonly announced: readonly AnnouncedMessage[];
}

function split(chunks: readonly Uint8Array[], protocolVersion: 4 | 5, admits = true): Split {
  const announced: AnnouncedMessage[] = [];
  const splitter = new PublishSplitter({
    protocolVersion,
    admits: ({ topic: name, retain, contentBytes }) => {
      announced.push({ topic: name, retain, contentBytes });
      return admits;
    },
    newTicket: () => TICKET,
  });
  const passed: Uint8Array[] = [];
  const contents: Content[] = [];
  const greeting = [...splitter.push(accepted)];
  expect(greeting).toEqual([{ kind: 'bytes', bytes: accepted }]);
  for (const chunk of chunks) {
    for (const piece of splitter.push(chunk)) {
      passed.push(Buffer.from(piece.bytes));
      if (piece.kind === 'ticket') contents.push(piece.content);
    }
  }
  expect(splitter.isBusy).toBe(false);
  return { passed: Buffer.concat(passed), contents, announced };
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

describe('PublishSplitter', () => {
  test('passes small packets as they are, and takes the content out of large ones, however they are cut', () => {
    const small = fc.tuple(fc.constantFrom(0xd0, 0xe0, 0x40, 0x90), fc.uint8Array({ minLength: 2, maxLength: 40 }));
    const size = fc.constantFrom(0, 1, LARGE_BYTES - 60, LARGE_BYTES, LARGE_BYTES + 70_001, 1_100_000);
    const message = fc.record({ size, qos: fc.constantFrom<0 | 1>(0, 1), retain: fc.boolean() });
    fc.assert(
      fc.property(
        version,
        fc.array(fc.oneof(small, message), { maxLength: 5 }),
        anyPlaces,
        (protocolVersion, parts, places) => {
          const packets: Buffer[] = [];
          const expected: Buffer[] = [];
          const contents: Buffer[] = [];
          for (const part of parts) {
            if (Array.isArray(part)) {
              packets.push(packet(part[0], part[1]));
              expected.push(packet(part[0], part[1]));
              continue;
            }
            const setup = { ...part, protocolVersion, topic, properties: correlationProperty('id') };
            const content = textOfBytes(part.size);
            const whole = publishPacket({ ...setup, content });
            const isLarge = whole.byteLength - content.byteLength + part.size - 4 >= LARGE_BYTES;
            packets.push(whole);
            expected.push(isLarge ? publishPacket({ ...setup, content: TICKET }) : whole);
            if (isLarge) contents.push(content);
          }
          const result = split(cut(Buffer.concat(packets), places), protocolVersion);
          expect(result.passed.equals(Buffer.concat(expected))).toBe(true);
          expect(
            result.contents.map(bytesOf).map((bytes, index) => bytes.equals(contents[index] ?? Buffer.of(1))),
          ).toEqual(contents.map(() => true));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('asks before it keeps anything, and says of which message', () => {
    const whole = publishPacket({ protocolVersion: 5, topic: 'ä/b', content: Buffer.alloc(100_000), retain: true });
    expect(split([whole], 5).announced).toEqual([{ topic: 'ä/b', retain: true, contentBytes: 100_000 }]);
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
        const [skipped] = split(cut(whole, places), 4, false).contents;
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
    ['a second answer to CONNECT, by its first byte', Buffer.from([0x20])],
    ['a length without end', Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x01])],
    ['an acknowledgement without an identifier', packet(0x40, Buffer.from([1]))],
    ['a subscription’s acknowledgement without an identifier', packet(0x90, Buffer.alloc(0))],
    ['a message without an identifier', packet(0x32, Buffer.from([0, 1, 0x61, 0]))],
    ['a message without a topic', packet(0x30, Buffer.from([0]))],
    ['properties longer than their packet', packet(0x30, withPropertiesLength(70_000, 0x7f))],
    ['properties without end', packet(0x30, withPropertiesLength(3_000_000, 0x40))],
  ])('refuses %s', (_, bytes) => {
    expect(() => split([bytes], 5)).toThrow(BrokenPacket);
  });

  test('refuses whoever does not begin as a broker does', () => {
    const splitter = new PublishSplitter({ protocolVersion: 5, admits: () => true, newTicket: () => TICKET });
    expect(() => [...splitter.push(Buffer.from('HTTP/1.1 400 Bad Request'))]).toThrow(BrokenPacket);
  });
});
