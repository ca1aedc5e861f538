import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

import fc from 'fast-check';

import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { SourceRunner } from '../../../../src/telemetry/source-runner.ts';
import { mqttSource } from '../../../../src/telemetry/sources/mqtt.ts';
import { toText } from '../../../../src/telemetry/value-text.ts';
import { noLogin } from '../../../unit-and-integration/mqtt/no-login.ts';
import { packet, publishPacket } from '../../../unit-and-integration/mqtt/packets.ts';
import { connack, first, suback } from '../../../unit-and-integration/mqtt/pretend-broker.ts';
import { edited, edits } from '../mutation.ts';
import { openTarget } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const content = fc.oneof(
  fc.constantFrom('21.5', '{"a":1}', ''),
  fc.integer({ min: 1, max: 30_000 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth)),
  fc.integer({ min: 1, max: 300_000 }).map((length) => 'a'.repeat(length)),
);
const published = fc
  .record({
    content,
    topic: fc.constantFrom('x', 'x/y', '', '\u0000', 't'.repeat(2_000), 'ü'.repeat(32_767)),
    qos: fc.constantFrom<0 | 1 | 2>(0, 1, 2),
    retain: fc.boolean(),
  })
  .map(({ content: text, ...how }) => publishPacket({ protocolVersion: 4, content: Buffer.from(text), ...how }));
const other = fc
  .tuple(fc.constantFrom(0x20, 0x40, 0x50, 0x62, 0x70, 0x90, 0xb0, 0xd0, 0xe0, 0x32), fc.uint8Array({ maxLength: 8 }))
  .map(([type, body]) => packet(type, body));
const cases = fc.array(fc.record({ packet: fc.oneof(published, other), changes: edits }), {
  minLength: 1,
  maxLength: 6,
});

const MOST_MS = 300;
const rate = { pointsPerSecond: 1_000, bytesPerSecond: 64 * 1024 * 1024 };

/** A hostile sensor broker: the source ends or continues, and no error leaves its runner. */
export const sensorBroker: FuzzTarget = {
  name: 'sensor-broker',
  open: async () => {
    const bench = await Bench.start();
    return openTarget(
      cases,
      async (input) => bench.check(input),
      async () => bench[Symbol.asyncDispose](),
    );
  },
};

class Bench implements AsyncDisposable {
  readonly #server = createServer((socket) => this.#serve(socket));
  #says: Buffer = Buffer.alloc(0);

  static async start(): Promise<Bench> {
    const bench = new Bench();
    await new Promise<void>((resolve) => bench.#server.listen(0, '127.0.0.1', resolve));
    return bench;
  }

  async check(input: CaseOf<typeof cases>): Promise<void> {
    this.#says = Buffer.concat(input.map(({ packet: bytes, changes }) => edited(bytes, changes)));
    const { port } = this.#server.address() as AddressInfo;
    const source = mqttSource({ ...noLogin, topic: '#', retained: 'once', url: `mqtt://127.0.0.1:${port}` });
    const ways = { clock: systemClock, random: () => 0, log: silentLog };
    const onReading = (reading: unknown): boolean => toText(reading) !== '';
    const options = { name: 'x', source, everyMs: 1, timeoutMs: 1, idleTimeoutMs: MOST_MS, rate, ...ways, onReading };
    const runner = new SourceRunner(options);
    const { signal } = new AbortController();
    await runner.once(signal);
    await runner.once(signal); // which gets again what the broker kept
  }

  #serve(socket: Socket): void {
    socket.on('error', () => {});
    socket.once('data', () => socket.write(connack[4]));
    socket.on('data', (chunk: Buffer) => {
      const [type, , ...id] = chunk;
      if (type !== first.subscribe) return;
      socket.write(suback(4, id));
      socket.end(this.#says);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
