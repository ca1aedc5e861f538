import type { Socket } from 'node:net';

import fc from 'fast-check';

import { MessagingTransport } from '../../../../src/service/messaging/transport.ts';
import { operations } from '../../../../src/service/operations.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { correlationProperty, packet, publishPacket } from '../../../unit-and-integration/mqtt/packets.ts';
import { messagingSettings } from '../../../unit-and-integration/service/messaging/messaging-rig.ts';
import { callService, MOST_TEXT_BYTES, requireForm, thing } from '../call-service.ts';
import { deliver, LocalServer } from '../local-server.ts';
import { edited, editedText, edits } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const signal = new AbortController().signal;
const deadlines = { connectMs: 200, requestMs: 25, unheardMs: 25, totalMs: 100, transferMs: 100 };
/** Allows for other load on the machine: the timing of a call is not tested here. */
const CALLS_UNTIL_RIGHT = 100;

const names = ['activate', 'currentVersion', 'targetVersion', 'updates', 'firmware', 'switchTo'] as const;

const result = fc.oneof(
  fc.constantFrom(
    '{"id":"2","name":"two","description":null}',
    '[{"id":"2","name":"two"}]',
    '{"thingId":"thing-1","apiKey":"key-1"}',
    '"QUJDREVGR0hJSktM"',
    '{"id":"2","name":"two","__proto__":{"x":1}}',
    'null',
    '',
  ),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.integer({ min: 1, max: 100_000 }).map((depth) => '['.repeat(depth)),
  fc.integer({ min: 1, max: 300_000 }).map((length) => `"${'A'.repeat(length)}"`),
);
/** `@` stands for the id of the request. */
const message = fc.oneof(
  { arbitrary: result.map((text) => `{"jsonrpc":"2.0","id":"@","result":${text}}`), weight: 6 },
  {
    arbitrary: fc.jsonValue().map((error) => `{"jsonrpc":"2.0","id":"@","error":${JSON.stringify(error)}}`),
    weight: 2,
  },
  { arbitrary: fc.constantFrom('{"id":"@"}', '[{"id":"@","result":1}]', '"@"', '{"result":"@"}', ''), weight: 1 },
);

const cases = fc.record({
  operation: fc.constantFrom(...names),
  protocolVersion: fc.constantFrom<4 | 5>(4, 5),
  replies: fc.array(
    fc.record({
      message,
      textEdits: edits,
      packetEdits: fc.oneof({ arbitrary: fc.constant([]), weight: 2 }, { arbitrary: edits, weight: 1 }),
      qos: fc.constantFrom<0 | 1 | 2>(0, 1, 1, 2),
      retain: fc.constantFrom(false, false, false, true),
      isCorrelated: fc.boolean(),
      isOnTopic: fc.constantFrom(true, true, true, false),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  pieces: fc.integer({ min: 1, max: 4 }),
  ending: fc.constantFrom<'stay' | 'close' | 'reset'>('stay', 'stay', 'stay', 'close', 'reset'),
});
type Case = CaseOf<typeof cases>;

/** Any reply: a result of the right form or an error. Later calls receive replies again. */
export const brokerReplies: FuzzTarget = {
  name: 'broker-replies',
  maxCaseMs: 15_000,
  open: async () => {
    const brokers = { 4: new HostileBroker(4), 5: new HostileBroker(5) };
    const transports = { 4: await transportTo(brokers[4]), 5: await transportTo(brokers[5]) };
    const check = async (input: Case): Promise<void> => {
      const [broker, transport] = [brokers[input.protocolVersion], transports[input.protocolVersion]];
      broker.plan = input;
      const outcome = await outcomeOf(async () => callService(transport, input.operation));
      if ('value' in outcome) requireForm(input.operation, outcome.value);
      broker.plan = undefined;
      for (let calls = 0; calls < CALLS_UNTIL_RIGHT; calls += 1) {
        const next = await outcomeOf(async () => transport.call(operations.currentVersion, thing, signal));
        if ('value' in next && next.value.id === 'right') return;
      }
      throw new Error('it does not speak with the broker any more');
    };
    return openTarget(cases, check, async () => {
      for (const transport of Object.values(transports)) await transport[Symbol.asyncDispose]();
      for (const broker of Object.values(brokers)) broker.close();
    });
  },
};

async function transportTo(broker: HostileBroker): Promise<MessagingTransport> {
  const settings = messagingSettings(await broker.listen(), {
    protocolVersion: broker.protocolVersion,
    deadlines,
    reconnect: { firstDelayMs: 1, maxDelayMs: 1 },
    maxMessageBytes: MOST_TEXT_BYTES,
  });
  return new MessagingTransport(settings, { clock: systemClock, random: () => 1, log: silentLog });
}

const TOPIC = 'v1.a1b2.reply.json';
/** First bytes of the packets of a client: MQTT 5.0, section 2.1.2. */
const [CONNECT, PUBLISH, SUBSCRIBE, PINGREQ] = [0x10, 0x30, 0x82, 0xc0];

/** Answers the first request after a plan was made according to the plan, and the others correctly. */
class HostileBroker {
  readonly protocolVersion: 4 | 5;
  plan: Case | undefined;
  readonly #server = new LocalServer((socket) => this.#serve(socket));

  constructor(protocolVersion: 4 | 5) {
    this.protocolVersion = protocolVersion;
  }

  async listen(): Promise<string> {
    return `mqtt://${await this.#server.listen()}`;
  }

  close(): void {
    this.#server.close();
  }

  #serve(socket: Socket): void {
    let unread = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      unread = Buffer.concat([unread, chunk]);
      for (let next = firstPacket(unread); next !== undefined; next = firstPacket(unread)) {
        unread = unread.subarray(next.byteLength);
        this.#answer(socket, next);
      }
    });
  }

  #answer(socket: Socket, asked: Buffer): void {
    const isFive = this.protocolVersion === 5;
    const [first = 0] = asked;
    if (first === CONNECT) socket.write(packet(0x20, Buffer.from(isFive ? [0, 0, 0] : [0, 0])));
    if (first === PINGREQ) socket.write(packet(0xd0, Buffer.alloc(0)));
    if (first === SUBSCRIBE)
      socket.write(packet(0x90, Buffer.from(isFive ? [...identifierOf(asked), 0, 1] : [...identifierOf(asked), 1])));
    if ((first & 0xf0) !== PUBLISH) return;
    const id = /"id":"([^"]+)"/.exec(asked.toString('latin1'))?.[1] ?? '';
    socket.write(packet(0x40, identifierOf(asked)));
    const { plan } = this;
    if (plan === undefined) socket.write(this.#rightReply(id));
    else this.#sayHostile(socket, id, plan);
  }

  #rightReply(id: string): Buffer {
    const content = Buffer.from(`{"jsonrpc":"2.0","id":"${id}","result":{"id":"right","name":"right"}}`);
    return publishPacket({ protocolVersion: this.protocolVersion, topic: TOPIC, content });
  }

  #sayHostile(socket: Socket, id: string, { replies, pieces, ending }: Case): void {
    const { protocolVersion } = this;
    const packets = replies.map(({ message: text, textEdits, packetEdits, qos, retain, isCorrelated, isOnTopic }) => {
      const content = Buffer.from(editedText(text, textEdits).replaceAll('@', id));
      const topic = isOnTopic ? TOPIC : 'v1.json';
      const properties = isCorrelated ? { properties: correlationProperty(id) } : {};
      return edited(publishPacket({ protocolVersion, topic, content, qos, retain, ...properties }), packetEdits);
    });
    deliver(socket, Buffer.concat(packets), { pieces, ending });
  }
}

/** MQTT 5.0, section 2.1.4: a variable length. Undefined if it is incomplete. */
function firstPacket(bytes: Buffer): Buffer | undefined {
  let length = 0;
  for (let digit = 1; digit < bytes.byteLength; digit += 1) {
    const value = bytes[digit] ?? 0;
    length += (value & 0x7f) * 128 ** (digit - 1);
    if (value < 0x80) {
      const end = 1 + digit + length;
      return end <= bytes.byteLength ? bytes.subarray(0, end) : undefined;
    }
  }
  return undefined;
}

/** Identifier of a SUBSCRIBE, before its properties, or of a PUBLISH with a quality above 0, after its topic. */
function identifierOf(asked: Buffer): Buffer {
  const start = asked.findIndex((byte, index) => index > 0 && byte < 0x80) + 1;
  if (asked[0] === SUBSCRIBE) return asked.subarray(start, start + 2);
  const topicBytes = asked.readUInt16BE(start);
  return asked.subarray(start + 2 + topicBytes, start + 4 + topicBytes);
}
