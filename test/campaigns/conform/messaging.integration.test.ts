import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { randomContent } from '../../fakes/service/firmware-content.ts';
import { MessagingSide } from '../../fakes/service/messaging.ts';
import type { ProvisioningOperation, RpcReply, Spoil } from '../../fakes/service/messaging.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { Mosquitto } from '../../unit-and-integration/service/messaging/mosquitto.ts';
import { conform, rules } from './conform.ts';
import type { Result } from './conform.ts';
import { messagingRules } from './rules/messaging.ts';

let broker: Mosquitto;

beforeAll(async () => {
  broker = await Mosquitto.start({ users: { conform: 'open:sesame', service: 'service' } });
});

afterAll(async () => {
  await broker[Symbol.asyncDispose]();
});

interface Service extends AsyncDisposable {
  readonly service: StandIn;
  readonly side: MessagingSide;
}

async function startService(): Promise<Service> {
  await using stack = new AsyncDisposableStack();
  const firmware = randomContent(200_000);
  const versions = ['1', '2'].map((id) => ({ id, name: `release ${id}`, firmware }));
  const service = stack.use(await startStandIn({ versions, updates: { '1': ['2'] } }));
  const options = { url: broker.url, client: { username: 'service', password: 'service' } };
  const side = stack.use(await MessagingSide.start(service.world, options));
  const owned = stack.move();
  return { service, side, [Symbol.asyncDispose]: async () => owned[Symbol.asyncDispose]() };
}

interface Choice {
  readonly url?: string;
  readonly protocolVersion?: 4 | 5;
  readonly replyTopic?: string;
  readonly connections?: number;
  readonly timeoutMs?: number;
  readonly password?: string;
  readonly switchToId?: string;
}

async function resultsOf(choice: Choice = {}): Promise<readonly Result[]> {
  const { url, protocolVersion = 5, replyTopic, connections = 0, timeoutMs = 20_000, switchToId = '2' } = choice;
  const address = broker.url.replace('://', `://conform:${choice.password ?? 'open%3Asesame'}@`);
  const messaging = { url: address, topicId: 'a1b2', replyTopic, protocolVersion };
  const ids = { serialNumber: 'GW-1', propertyId: 'p', eventId: 'e', switchToId };
  return Array.fromAsync(conform({ url, messaging, ...ids, timeoutMs, connections }));
}

function found(results: readonly Result[]): readonly string[] {
  return results.filter(({ verdict }) => verdict !== 'pass').map(({ rule, verdict }) => `${verdict} ${rule}`);
}

type Change = (right: Record<string, unknown>) => Record<string, unknown>;

const result =
  (value: unknown): Change =>
  (right) => ({ ...right, result: value });
const error =
  (code: number): Change =>
  ({ jsonrpc, id }) => ({ jsonrpc, id, error: { code, message: 'no' } });
const changed =
  (change: Change, others: Partial<RpcReply> = {}): Spoil =>
  (_request, right) => [
    { text: JSON.stringify(change(JSON.parse(right.toString('utf8')) as Record<string, unknown>)), ...others },
  ];
const right = (others: Partial<RpcReply>): Spoil => changed((reply) => reply, others);
const silent: Spoil = () => [];
const version = { id: '1', name: 'one' };

type Break = readonly [expected: string, how: string, ...(readonly [ProvisioningOperation, Spoil])];

/** Ways to break each rule, each with the first finding. An operation that is called before is answered correctly. */
const breaks: readonly Break[] = [
  ['failure messaging-activation', 'has no key', 'activate', changed(result({ thingId: 'thing-1' }))],
  ['failure messaging-activation', 'is refused', 'activate', changed(error(403))],
  ['failure messaging-activation', 'has no result', 'activate', changed(({ jsonrpc, id }) => ({ jsonrpc, id }))],
  ['failure messaging-activation', 'is not JSON-RPC', 'activate', changed(({ id, result }) => ({ id, result }))],
  ['failure messaging-activation', 'is not JSON', 'activate', () => [{ text: 'thing-1' }]],
  ['failure messaging-activation', 'is not answered', 'activate', silent],
  ['failure messaging-activation', 'has another id', 'activate', changed((reply) => ({ ...reply, id: 'x' }))],
  ['failure messaging-current', 'is an array', 'currentVersion', changed(result([version]))],
  ['failure messaging-target', 'has a number for an ID', 'targetVersion', changed(result({ id: 1, name: 'one' }))],
  ['failure messaging-target', 'is too long', 'targetVersion', changed(result('x'.repeat(1_100_000)))],
  ['failure messaging-updates', 'are one object', 'updates', changed(result(version))],
  ['failure messaging-switch', 'is refused', 'switchTo', changed(error(400))],
  ['warning messaging-switch', 'has a result', 'switchTo', changed(result(true))],
  ['failure messaging-firmware', 'is an object', 'firmware', changed(result({ firmware: 'AAAA' }))],
  ['failure messaging-firmware', 'is no encoding', 'firmware', changed(result('<firmware>'))],
  ['failure messaging-firmware', 'is refused', 'firmware', changed(error(404))],
  ['warning messaging-correlation', 'is missing', 'targetVersion', right({ correlation: 'none' })],
];

const inRound =
  (...spoils: readonly (Spoil | undefined)[]): ((side: MessagingSide, operation: ProvisioningOperation) => void) =>
  (side, operation) => {
    const asUsual: Spoil = (_request, text) => [{ text }];
    for (const spoil of spoils) side.spoilNext(operation, spoil ?? asUsual);
  };
const otherThing = changed(result({ thingId: 'thing-2', apiKey: 'k' }));
const sameKey = changed(result({ thingId: 'thing-1', apiKey: 'k' }));

/** The same for rules whose operation was called before by another rule. */
const laterBreaks = [
  ['failure messaging-activation-repeated', 'makes another thing', 'activate', inRound(undefined, otherThing)],
  ['failure messaging-activation-repeated', 'returns the same key', 'activate', inRound(sameKey, sameKey)],
  [
    'failure messaging-switch-kept',
    'has no effect',
    'currentVersion',
    inRound(undefined, changed(result({ id: '2', name: 'two' }))),
  ],
  [
    'failure messaging-switch-to',
    'has no effect',
    'currentVersion',
    inRound(undefined, undefined, undefined, changed(result(version))),
  ],
  [
    'warning messaging-target-pending',
    'is another version',
    'targetVersion',
    inRound(changed(result({ id: '2', name: 'two' }))),
  ],
  [
    'failure messaging-unknown-thing',
    'has a version',
    'currentVersion',
    inRound(
      undefined,
      undefined,
      changed(({ jsonrpc, id }) => ({ jsonrpc, id, result: version })),
    ),
  ],
  [
    'failure messaging-unknown-thing',
    'is an error of the service',
    'currentVersion',
    inRound(undefined, undefined, changed(error(-32_603))),
  ],
  [
    'warning messaging-unknown-thing',
    'is refused as a wrong parameter',
    'currentVersion',
    inRound(undefined, undefined, changed(error(-32_602))),
  ],
  [
    'failure messaging-unknown-version',
    'has a firmware',
    'firmware',
    inRound(
      undefined,
      changed(({ jsonrpc, id }) => ({ jsonrpc, id, result: 'AAAA' })),
    ),
  ],
] as const;

describe('a service in messaging form', () => {
  test.each([5, 4] as const)('passes all rules with protocol %i if it is the simulator', async (protocolVersion) => {
    await using rig = await startService();
    const results = await resultsOf({ protocolVersion });
    const untested = new Set(['messaging-same-thing', ...(protocolVersion === 4 ? ['messaging-correlation'] : [])]);
    expect(found(results)).toEqual([]);
    expect(results.map(({ rule }) => rule)).toEqual([
      'messaging-broker',
      ...messagingRules.map(({ id }) => id).filter((id) => !untested.has(id)),
    ]);
    expect(rig.service.world.things).toHaveLength(1);
  });

  test('is tested in both forms, and with 200 connections', async () => {
    await using rig = await startService();
    const results = await resultsOf({ url: rig.service.url, connections: 200 });
    expect(found(results)).toEqual([]);
    expect(results).toHaveLength(rules.length + messagingRules.length + 3);
    expect(rig.side.requestsOf('currentVersion')).toHaveLength(207);
  });

  test.each(breaks)('gets a %s if it %s', async (expected, _how, operation, spoil) => {
    await using rig = await startService();
    rig.side.spoilNext(operation, spoil);
    const isIgnored = expected === 'failure messaging-activation';
    const results = await resultsOf(isIgnored ? { timeoutMs: 2000 } : {});
    expect(found(results)[0]).toBe(expected);
    expect(results.find(({ verdict }) => verdict !== 'pass')?.why).not.toBe('');
    expect(JSON.stringify(results)).not.toMatch(/key-[0-9a-f]{8}|sesame/);
  });

  test.each(laterBreaks)('gets a %s if it %s', async (expected, _how, operation, spoil) => {
    await using rig = await startService();
    spoil(rig.side, operation);
    expect(found(await resultsOf())[0]).toBe(expected);
  });

  test('can break each rule', () => {
    const broken = new Set([...breaks, ...laterBreaks].map(([expected]) => expected.split(' ')[1]));
    const others = messagingRules.map(({ id }) => id).filter((id) => !broken.has(id));
    expect(others).toEqual(['messaging-same-thing', 'messaging-retained']); // have tests of their own
  });

  test.each([
    [503, 'warning messaging-connections'],
    [500, 'failure messaging-connections'],
  ])('that answers some of many calls with error %i gets a %s', async (code, expected) => {
    await using rig = await startService();
    const others = Array.from({ length: 7 }, () => undefined);
    inRound(...others, changed(error(code)))(rig.side, 'currentVersion');
    expect(found(await resultsOf({ connections: 5 }))).toEqual([expected]);
  });

  test('fails if it has another thing in REST form', async () => {
    await using rig = await startService();
    rig.side.spoilNext('activate', otherThing);
    expect(found(await resultsOf({ url: rig.service.url }))[0]).toBe('failure messaging-same-thing');
  });

  test('passes with replies on another topic, if that is named', async () => {
    await using rig = await startService();
    const elsewhere = right({ topic: 'answers' });
    for (let count = 0; count < 30; count += 1) rig.side.spoilNext('any', elsewhere);
    expect(found(await resultsOf({ protocolVersion: 4, replyTopic: 'answers' }))).toEqual([]);
  });

  test.each([5, 4] as const)('fails with protocol %i if its activation is retained', async (protocolVersion) => {
    await using rig = await startService();
    try {
      rig.side.spoilNext('activate', right({ retain: true }));
      const results = await resultsOf({ protocolVersion });
      expect(found(results)).toEqual(['failure messaging-retained']);
      expect(results.find(({ verdict }) => verdict === 'failure')?.why).toContain('with the API key');
      expect(JSON.stringify(results)).not.toMatch(/key-[0-9a-f]{8}/);
    } finally {
      await rig.side.publish(rig.side.replyTopic, '', true);
    }
  });

  test('fails for a missing reply and for a retained one of an earlier run', async () => {
    await using rig = await startService();
    try {
      await rig.side.publish(rig.side.replyTopic, '{"jsonrpc":"2.0","id":"x"}', true);
      rig.side.spoilNext('activate', silent);
      const results = await resultsOf({ timeoutMs: 2000 });
      const failures = results.filter(({ verdict }) => verdict === 'failure');
      expect(failures.map(({ rule }) => rule)).toEqual(['messaging-activation', 'messaging-retained']);
      expect(failures[0]?.why).toBe('no reply arrived on v1.a1b2.reply.json within 2 s');
      expect(failures[0]?.accepted).toBe('replies on the response topic of the request');
    } finally {
      await rig.side.publish(rig.side.replyTopic, '', true);
    }
  });

  test('fails with a hint if only its replies to activations arrive', async () => {
    await using rig = await startService();
    rig.side.spoilNext('currentVersion', silent);
    const results = await resultsOf({ timeoutMs: 2000 });
    expect(found(results)[0]).toBe('failure messaging-current');
    expect(results.find(({ rule }) => rule === 'messaging-current')?.why).toMatch(/ 2 s\. .* check --topic-id$/);
  });

  test('fails with the origin of a version that does not exist', async () => {
    await using _rig = await startService();
    const results = await resultsOf({ switchToId: 'nope' });
    expect(found(results)).toEqual(['failure messaging-switch-to']);
    expect(results.find(({ verdict }) => verdict === 'failure')?.why).toContain('nope comes from --switch-to');
  });

  test('gets a warning about a pending switch', async () => {
    await using rig = await startService();
    rig.service.world.targetVersionId = '2';
    expect(found(await resultsOf())[0]).toBe('warning messaging-target-pending');
  });

  test('shows a reply that the agent ignores, with the reason', async () => {
    await using rig = await startService();
    rig.side.spoilNext('activate', right({ correlation: Buffer.from('x') }));
    const results = await resultsOf({ timeoutMs: 2000 });
    expect(results[1]?.why).toBe(
      'no reply arrived on v1.a1b2.reply.json within 2 s that the agent accepts: its correlation data differs from its id',
    );
    expect(results[1]?.exchanges[0]?.responseHeaders).toMatchObject({ 'correlation-data': 'x' });
  });

  test('fails if the broker refuses the connection, and shows no password', async () => {
    const results = await resultsOf({ password: 'sesame' });
    expect(found(results)).toEqual(['failure messaging-broker']);
    expect(JSON.stringify(results)).not.toContain('sesame');
  });
});
