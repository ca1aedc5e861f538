import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

import fc from 'fast-check';

import { operations } from '../../../../src/service/operations.ts';
import { operations as names } from '../../../fakes/service/faults.ts';
import { restRig } from '../../../unit-and-integration/service/rest/rest-rig.ts';
import { callService, requireForm, thing } from '../call-service.ts';
import { deliver, LocalServer } from '../local-server.ts';
import { hostile } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const signal = new AbortController().signal;

const status = fc.constantFrom(
  200,
  200,
  200,
  204,
  206,
  100,
  103,
  201,
  301,
  304,
  400,
  401,
  404,
  416,
  429,
  500,
  503,
  0,
  999,
);
const json = fc.oneof(
  fc.constantFrom(
    '{"id":"2","name":"two","description":null}',
    '[{"id":"2","name":"two"}]',
    '{"thingId":"thing-1","apiKey":"key-1"}',
    '"QUJDREVGR0hJSktM"',
    '21.5',
    '',
    'null',
    '\ufeff{"id":"2","name":"two"}',
    '{"id":"2","name":"two","__proto__":{"x":1}}',
  ),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.integer({ min: 1, max: 100_000 }).map((depth) => '['.repeat(depth)),
);
const header = fc.oneof(
  fc.constantFrom(
    'content-type: text/html',
    'content-length: 0',
    'content-length: 5',
    'content-length: -1',
    'content-length: 99999999999999999999',
    'content-length: 5, 5',
    'transfer-encoding: chunked',
    'transfer-encoding: gzip, chunked',
    'content-encoding: gzip',
    'content-encoding: br',
    'connection: close',
    'connection: upgrade',
    'etag: "1"',
    'etag: W/"1"',
    'content-range: bytes 0-4/5',
    'content-range: bytes 5-4/*',
    'content-range: bytes 0-99999999999999999999/*',
    'retry-after: 0',
    'retry-after: -1',
    'retry-after: Fri, 31 Feb 2027 25:00:00 GMT',
    'location: http://127.0.0.1:1/',
    'x-apikey: key-of-the-thing',
    'set-cookie: a=b',
    ': nothing',
    'folded: a\r\n b',
  ),
  fc.integer({ min: 1, max: 40_000 }).map((length) => `x-long: ${'a'.repeat(length)}`),
);

const reply = fc
  .record({
    status,
    headers: fc.array(header, { maxLength: 4 }),
    body: json,
    isPacked: fc.boolean(),
    isExact: fc.boolean(),
  })
  .map(({ status, headers, body, isPacked, isExact }) => {
    const bytes = isPacked ? gzipSync(body) : Buffer.from(body);
    const length = isExact ? [`content-length: ${bytes.byteLength}`] : [];
    const head = [`HTTP/1.1 ${status} Whatever`, ...length, ...headers, '', ''].join('\r\n');
    return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
  });

const cases = fc.record({
  operation: fc.constantFrom(...names),
  reply: fc.oneof({ arbitrary: reply, weight: 2 }, { arbitrary: hostile(reply), weight: 3 }),
  pieces: fc.integer({ min: 1, max: 4 }),
  ending: fc.constantFrom<'close' | 'reset' | 'stay'>('close', 'close', 'close', 'close', 'reset', 'stay'),
});

type Case = CaseOf<typeof cases>;

/** Any reply to each of the nine calls: a result of the right form or an error; the next call is not touched by it. */
export const serviceReplies: FuzzTarget = {
  name: 'service-replies',
  open: async () => {
    const service = new HostileService();
    const url = await service.listen();
    const deadlines = { connectMs: 2_000, firstByteMs: 60, idleMs: 60, totalMs: 200, transferMs: 300 };
    const rig = restRig(url, {
      deadlines,
      resume: { attempts: 2, firstDelayMs: 1, maxDelayMs: 1, maxRetryAfterMs: 1 },
    });
    const check = async (input: Case): Promise<void> => {
      service.plan = input;
      const outcome = await outcomeOf(async () => callService(rig.transport, input.operation));
      if ('error' in outcome && outcome.error.message.includes(thing.apiKey))
        throw new Error(`the key: ${outcome.error.message}`);
      if (!('error' in outcome)) requireForm(input.operation, outcome.value);
      service.plan = undefined;
      const next = await outcomeOf(async () => rig.transport.call(operations.currentVersion, thing, signal));
      if ('value' in next && next.value.id === 'right') return;
      const again = await rig.transport.call(operations.currentVersion, thing, signal); // a lost connection in between is harmless
      if (again.id !== 'right') throw new Error(`the next call got ${again.id}`);
    };
    return openTarget(cases, check, async () => {
      await rig[Symbol.asyncDispose]();
      service.close();
    });
  },
};

/** Answers the first request after a plan was made according to the plan, and the others correctly. */
class HostileService {
  plan: Case | undefined;
  readonly #server = new LocalServer((socket) => this.#serve(socket));

  async listen(): Promise<string> {
    return `http://${await this.#server.listen()}`;
  }

  close(): void {
    this.#server.close();
  }

  #serve(socket: Socket): void {
    socket.on('data', (bytes: Buffer) => {
      if (!/^(?:GET|PUT|POST) /.test(bytes.toString('latin1'))) return; // the rest of a request
      const { plan } = this;
      if (plan === undefined) socket.write(rightReply);
      else deliver(socket, plan.reply, plan);
    });
  }
}

const rightBody = '{"id":"right","name":"right"}';
const rightReply = `HTTP/1.1 200 OK\r\ncontent-length: ${rightBody.length}\r\n\r\n${rightBody}`;
