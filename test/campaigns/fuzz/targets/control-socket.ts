import { once } from 'node:events';
import { join } from 'node:path';

import fc from 'fast-check';

import { socketNames } from '../../../../src/control/access.ts';
import type { AgentOperations } from '../../../../src/control/operations.ts';
import type { FileContent } from '../../../../src/system/files/opened-file.ts';
import { fakeAgent } from '../../../unit-and-integration/cli/fake-operations.ts';
import { controlRig, forever, rawConnection, requestText } from '../../../unit-and-integration/control/control-rig.ts';
import { changedJson, hostile, jsonChanges } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const paths = [
  'status',
  'check',
  'doctor',
  'activate',
  'reboot',
  'update',
  'install',
  'install?path=/x&reboot=false',
  'inspect?path=/x',
  'boards/m/plan?path=%00&path=/x&board=m',
  'commit',
  'rollback',
  'properties/a',
  'events/e/datapoints',
  'points',
  'queue',
  'boards',
  'nothing',
  '%00',
  '..',
  '',
];
const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PRI');
const body = fc.oneof(
  jsonChanges.map((changes) =>
    JSON.stringify(
      changedJson({ reboot: false, force: false, path: '/x', value: 1, at: '2027-01-01T00:00:00Z' }, changes),
    ),
  ),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.integer({ min: 1, max: 20_000 }).map((depth) => '['.repeat(depth)),
);
/** Bytes that the header announces and the client never sends. */
const missing = fc.constantFrom('', '000000');
const request = fc
  .record({ method, path: fc.constantFrom(...paths), body, missing })
  .map(({ method, path, body, missing }) =>
    requestText(method, `/v1/${path}`, body).replace(/(?<=content-length: \d+)/, missing),
  );

const cases = fc.record({
  caller: fc.constantFrom('root', 'operators', 'members'),
  bytes: fc.oneof(
    { arbitrary: request.map((text) => Buffer.from(text)), weight: 2 },
    { arbitrary: hostile(request.map((text) => Buffer.from(text))), weight: 3 },
  ),
  pieces: fc.integer({ min: 1, max: 5 }),
  /** Hangs up without waiting for an answer. */
  isImpatient: fc.boolean(),
});

async function readAll(file: FileContent, signal: AbortSignal): Promise<number> {
  let sizeBytes = 0;
  for await (const chunk of file.read(signal)) sizeBytes += chunk.byteLength;
  return sizeBytes;
}

/** An agent that reads the files that it gets. */
const reader = fakeAgent({
  install: async ({ file }, _onEvent, signal) => ({ kind: 'installed', version: `${await readAll(file, signal)}` }),
  inspect: async ({ file, path }, signal) => ({
    file: path,
    payloads: [{ fileName: 'x', sizeBytes: await readAll(file, signal) }],
    obstacles: [],
  }),
});

/** Anything on the socket: an answer that a program can read, or none; afterwards the daemon answers as before. */
export const controlSocket: FuzzTarget = {
  name: 'control-socket',
  open: async () => {
    const rig = await controlRig(reader, { headersMs: 40, requestMs: 60, stalledMs: 100, answerMs: 2_000 });
    const check = async ({ caller, bytes, pieces, isImpatient }: CaseOf<typeof cases>): Promise<void> => {
      const connection = rawConnection(join(rig.runDirectory, socketNames[caller]));
      const size = Math.ceil(bytes.byteLength / pieces);
      for (let at = 0; at < bytes.byteLength; at += size) connection.socket.write(bytes.subarray(at, at + size));
      if (isImpatient) {
        connection.socket.destroy();
        if (!connection.socket.closed) await once(connection.socket, 'close');
      } else {
        requireReply(await connection.ended);
      }
      await requireAnswer(rig.client);
      const noise = rig.log.lines.find((line) => /failed unexpectedly|\n\s+at /.test(line));
      if (noise !== undefined) throw new Error(noise);
    };
    return openTarget(cases, check, async () => rig[Symbol.asyncDispose]());
  },
};

/** On a busy machine our own request may come later than the deadline, which is short here. */
const CALLS_UNTIL_IN_TIME = 200;

async function requireAnswer(client: AgentOperations): Promise<void> {
  for (let calls = 0; calls < CALLS_UNTIL_IN_TIME; calls += 1) {
    const outcome = await outcomeOf(async () => client.status({}, forever));
    if ('value' in outcome && outcome.value.serialNumber === 'GW-0001') return;
    if (!('error' in outcome) || outcome.error.code !== 'control-request-slow') break;
  }
  throw new Error('the daemon does not answer');
}

/** Each reply is HTTP with JSON, and without a stack. */
function requireReply(reply: string): void {
  if (reply === '') return;
  if (!/^HTTP\/1\.1 \d{3} /.test(reply)) throw new Error(`not HTTP: ${reply.slice(0, 200)}`);
  if (/\n?\s+at .*:\d+:\d+/.test(reply)) throw new Error(`a stack trace: ${reply.slice(0, 500)}`);
  if (/ 500 /.test(reply.split('\r\n', 1)[0] ?? '')) throw new Error(`a defect: ${reply.slice(0, 500)}`);
}
