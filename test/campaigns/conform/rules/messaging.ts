import { randomUUID } from 'node:crypto';

import type { Version } from '../../../../src/service/contract.ts';
import { ServiceError } from '../../../../src/service/errors.ts';
import { MAX_REPLY_BYTES } from '../../../../src/service/messaging/settings.ts';
import { operations } from '../../../../src/service/operations.ts';
import type { Input, Row } from '../../../../src/service/operations.ts';
import { readActivation, readVersion, readVersions } from '../../../../src/service/replies.ts';
import { MessagingProbe } from '../messaging-probe.ts';
import type { MessagingOptions, RpcReply } from '../messaging-probe.ts';
import { fail, need, warn } from '../verdict.ts';
import type { Rule, Thing } from '../verdict.ts';
import { textDecoder } from './firmware-text.ts';
import { originOf } from './firmware.ts';
import { repliesOf } from './load.ts';
import { expectNoPendingSwitch, switchAndBack } from './switch-to.ts';

/** The input of a run in messaging form, and the facts that its rules collect. */
export interface MessagingRun {
  readonly probe: MessagingProbe;
  readonly options: MessagingOptions;
  readonly timeoutMs: number;
  readonly serialNumber: string;
  /** The version whose firmware is read; omitted: the target version. */
  readonly versionId: string | undefined;
  /** The version to switch to and back; omitted: not tested. */
  readonly switchToId: string | undefined;
  /** The thing in REST form; omitted if that form was not tested. */
  readonly restThing: Thing | undefined;
  thing?: Thing;
  current?: Version;
  target?: Version;
  hasAllCorrelations?: boolean;
}

/** The default of `[service.messaging] max_message`. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

async function call(run: MessagingRun, row: Row, input: Input): Promise<RpcReply> {
  const reply = await run.probe.call(row, input);
  run.hasAllCorrelations = (run.hasAllCorrelations ?? true) && reply.hasCorrelation;
  if (row.reply.form !== 'stream' && reply.bytes > MAX_REPLY_BYTES)
    fail(`the reply has ${reply.bytes} bytes; the agent accepts ${MAX_REPLY_BYTES}`);
  return reply;
}

/** Returns the result as the agent reads it. Throws a failure if the reply is an error, or has another shape. */
async function resultOf<T>(
  run: MessagingRun,
  [row, input]: readonly [Row, Input],
  read: (value: unknown, operation: string) => T,
): Promise<T> {
  const { result, failure } = await call(run, row, input);
  expectNoError(failure);
  if (result === undefined) fail('the reply has no result');
  try {
    return read(result, 'the call');
  } catch (error) {
    if (error instanceof ServiceError) fail(error.message);
    throw error;
  }
}

async function activate(run: MessagingRun): Promise<Thing> {
  const { serialNumber } = run;
  run.thing = await resultOf(run, [operations.activate, { serialNumber }], (value, name) => {
    const thing = readActivation(value, name);
    run.probe.exchanges.hide(thing.apiKey);
    return thing;
  });
  return run.thing;
}

/** Activates again. Throws a failure if the thing is not the same, or the key is. */
async function activateAgain(run: MessagingRun): Promise<void> {
  const first = need(run.thing, 'messaging-activation');
  const second = await activate(run);
  if (second.thingId !== first.thingId) fail(`the thing ID was ${first.thingId} and is now ${second.thingId}`);
  if (second.apiKey === first.apiKey) fail('the API key is the same');
}

async function readVersionOf(
  run: MessagingRun,
  operation: typeof operations.currentVersion | typeof operations.targetVersion,
): Promise<Version> {
  return resultOf(run, [operation, { thingId: thingIdOf(run) }], readVersion);
}

const thingIdOf = (run: MessagingRun): string => need(run.thing, 'messaging-activation').thingId;

async function switchTo(run: MessagingRun, versionId: string): Promise<RpcReply> {
  return call(run, operations.switchTo, { thingId: thingIdOf(run), versionId });
}

function expectNoError(failure: RpcReply['failure'], hint = ''): asserts failure is undefined {
  if (failure !== undefined) fail(`the reply is error ${failure.code} (${failure.message})${hint}`);
}

/** Codes after which the agent repeats the call (src/service/messaging/reply.ts). */
const isRepeated = (code: number): boolean =>
  [408, 409, 429, -32_700, -32_603].includes(code) ||
  (code >= 500 && code < 600) ||
  (code <= -32_000 && code >= -32_099);

function expectUnknown({ failure }: RpcReply): void {
  if (failure === undefined) fail('the reply is not an error: the service accepts an ID that does not exist');
  const { code, message } = failure;
  if (isRepeated(code)) fail(`the reply is error ${code} (${message}): the agent repeats the call. Return 404`);
  if (code !== 404)
    warn(`the reply is error ${code} (${message}). With 404, the agent activates again if the thing is gone`);
}

/** In this order: later rules use what earlier ones found out. */
export const messagingRules: readonly Rule<MessagingRun>[] = [
  {
    id: 'messaging-activation',
    title: 'things.activate returns the thing ID and an API key',
    source: 'interface',
    check: async (run) => void (await activate(run)),
  },
  {
    id: 'messaging-same-thing',
    title: 'both forms activate the same thing',
    source: 'interface',
    check: async (run) => {
      const thingId = thingIdOf(run);
      const inRest = need(run.restThing, 'activation').thingId;
      if (inRest !== thingId) fail(`the thing ID is ${inRest} in REST form and ${thingId} in messaging form`);
      return Promise.resolve();
    },
  },
  {
    id: 'messaging-activation-repeated',
    title: 'a repeated activation returns the same thing and a new API key',
    source: 'interface',
    check: activateAgain,
  },
  {
    id: 'messaging-current',
    title: 'the result of things.versions.current.get is one version, not an array',
    source: 'interface',
    check: async (run) => {
      run.current = await readVersionOf(run, operations.currentVersion);
    },
  },
  {
    id: 'messaging-target',
    title: 'the result of things.versions.target.get is one version, not an array',
    source: 'interface',
    check: async (run) => {
      run.target = await readVersionOf(run, operations.targetVersion);
    },
  },
  {
    id: 'messaging-target-pending',
    title: 'the test thing has no pending switch: the run confirms its current version',
    source: 'agent',
    check: async (run) =>
      expectNoPendingSwitch(need(run.current, 'messaging-current'), need(run.target, 'messaging-target')),
  },
  {
    id: 'messaging-updates',
    title: 'the result of things.versions.updates.list is an array of versions',
    source: 'interface',
    check: async (run) => {
      const input = { thingId: thingIdOf(run), versionId: need(run.current, 'messaging-current').id };
      await resultOf(run, [operations.updates, input], readVersions);
    },
  },
  {
    id: 'messaging-switch',
    title: 'a switch to the current version is answered without result and error',
    source: 'interface',
    check: async (run) => {
      const { failure, result } = await switchTo(run, need(run.current, 'messaging-current').id);
      expectNoError(failure);
      if (result !== undefined) warn('the reply has a result. The agent ignores it');
    },
  },
  {
    id: 'messaging-switch-kept',
    title: 'after a switch, the current version is the given one',
    source: 'interface',
    check: async (run) => {
      const { id } = need(run.current, 'messaging-current');
      const now = await readVersionOf(run, operations.currentVersion);
      if (now.id !== id) fail(`the switch named ${id}, and the current version is ${now.id}`);
    },
  },
  {
    id: 'messaging-firmware',
    title: 'the firmware is one JSON string in one message: base64, base64url or hexadecimal digits',
    source: 'interface',
    check: async (run) => {
      const versionId = run.versionId ?? need(run.target, 'messaging-target').id;
      const reply = await call(run, operations.firmware, { thingId: thingIdOf(run), versionId });
      const { failure, result, bytes } = reply;
      expectNoError(failure, originOf(run, versionId));
      if (result === undefined) fail('the reply has no result');
      const decoder = textDecoder();
      decoder.push(Buffer.isBuffer(result) ? result : Buffer.from(JSON.stringify(result)));
      decoder.finish();
      if (bytes > MAX_MESSAGE_BYTES)
        warn(`the message has ${bytes} bytes: gateways need a larger max_message, or firmware_transport = "rest"`);
    },
  },
  {
    id: 'messaging-unknown-thing',
    title: 'an unknown thing ID is refused with error 404',
    source: 'agent',
    check: async (run) => {
      need(run.thing, 'messaging-activation');
      expectUnknown(await call(run, operations.currentVersion, { thingId: `conform-${randomUUID()}` }));
    },
  },
  {
    id: 'messaging-unknown-version',
    title: 'the firmware of an unknown version is refused with error 404',
    source: 'agent',
    check: async (run) => {
      const input = { thingId: thingIdOf(run), versionId: `conform-${randomUUID()}` };
      expectUnknown(await call(run, operations.firmware, input));
    },
  },
  {
    id: 'messaging-switch-to',
    title: 'a switch to another version changes the current version; an activation does not',
    source: 'interface',
    check: async (run) => {
      const before = {
        current: need(run.current, 'messaging-current'),
        target: need(run.target, 'messaging-target'),
      };
      await switchAndBack(run.switchToId, before, {
        switchTo: async (id, hint) => expectNoError((await switchTo(run, id)).failure, hint),
        activate: async () => activateAgain(run),
        current: async () => (await readVersionOf(run, operations.currentVersion)).id,
        target: async () => (await readVersionOf(run, operations.targetVersion)).id,
      });
    },
  },
  {
    id: 'messaging-retained',
    title: 'no reply is retained',
    source: 'agent',
    check: async (run) => {
      run.probe.expectNothingRetained();
      const thingId = thingIdOf(run);
      await run.probe.subscribeAgain();
      await call(run, operations.currentVersion, { thingId }); // its reply follows a retained message
      run.probe.expectNothingRetained();
    },
  },
  {
    id: 'messaging-correlation',
    title: 'replies return the correlation data of MQTT 5 requests',
    source: 'agent',
    check: async (run) => {
      need(run.thing, 'messaging-activation');
      if (run.hasAllCorrelations !== true)
        warn('a reply has none. The agent then relies on the id alone, also for a reply that it cannot read');
      return Promise.resolve();
    },
  },
];

/** Tests a number of gateways at the same time, each with its own connection to the broker. */
export function messagingConnectionsRule(count: number): Rule<MessagingRun> {
  return {
    id: 'messaging-connections',
    title: `${count} gateways may be connected and call at the same time`,
    source: 'agent',
    check: async (run) => {
      const thingId = thingIdOf(run);
      const { exchanges } = run.probe;
      await using stack = new AsyncDisposableStack();
      const connect = async (): Promise<MessagingProbe> =>
        stack.use(await MessagingProbe.connect(run.options, run.timeoutMs, exchanges));
      const probes = await Promise.all(Array.from({ length: count }, connect));
      const calls = probes.map(async (probe) => probe.call(operations.currentVersion, { thingId }));
      const replies = await repliesOf(calls);
      const refused = replies.flatMap(({ failure }) => failure ?? []);
      const why = `${refused.length} of ${count} calls at the same time are refused, with error ${refused[0]?.code}`;
      if (refused.some(({ code }) => code !== 429 && code !== 503)) fail(why);
      if (refused.length > 0) warn(`${why}. The agent tries again`);
    },
  };
}
