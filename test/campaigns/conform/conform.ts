import { Exchanges } from './exchanges.ts';
import type { Exchange } from './exchanges.ts';
import { MessagingProbe } from './messaging-probe.ts';
import type { MessagingOptions } from './messaging-probe.ts';
import { Probe } from './probe.ts';
import { firmwareRules } from './rules/firmware.ts';
import { connectionsRule, largeTextRule } from './rules/load.ts';
import { messagingConnectionsRule, messagingRules } from './rules/messaging.ts';
import type { MessagingRun } from './rules/messaging.ts';
import { provisioningRules, switchToRule, unknownIdRules } from './rules/provisioning.ts';
import { keyRules, valueRules } from './rules/values.ts';
import { Finding } from './verdict.ts';
import type { Rule, Run, ValueKind, Verdict } from './verdict.ts';

/** In this order: later rules use what earlier ones found out. */
export const rules: readonly Rule[] = [
  ...provisioningRules,
  ...firmwareRules,
  ...unknownIdRules,
  ...valueRules,
  ...keyRules,
  switchToRule,
];

export interface Result {
  readonly rule: string;
  readonly title: string;
  readonly source: Rule['source'];
  /** A measured figure, if the rule has one. */
  readonly note: string | undefined;
  readonly verdict: Verdict;
  /** The reason; omitted if the rule passed. */
  readonly why: string | undefined;
  /** The replies that the agent accepts; undefined if the interface states the rule. */
  readonly accepted: string | undefined;
  readonly exchanges: readonly Exchange[];
}

export interface ConformOptions {
  /** The base address of the REST form; omitted: that form is not tested. */
  readonly url?: string | undefined;
  /** Omitted: the messaging form is not tested. */
  readonly messaging?: MessagingOptions | undefined;
  readonly serialNumber: string;
  /** A key of an earlier activation of the serial number: it must not be valid after the next one. */
  readonly apiKey?: string | undefined;
  readonly versionId?: string | undefined;
  /** A version to switch to and back; omitted: not tested. */
  readonly switchToId?: string | undefined;
  /** A version whose text has 128 MiB or more; omitted: the throughput is not tested. */
  readonly largeVersionId?: string | undefined;
  readonly propertyId: string;
  /** Properties for one kind of value each; default: `propertyId`. */
  readonly propertyIds?: Readonly<Partial<Record<ValueKind, string | undefined>>>;
  readonly eventId: string;
  readonly timeoutMs: number;
  /** The number of simultaneous calls to test; 0: none. */
  readonly connections: number;
}

type Results = AsyncGenerator<Result, void, undefined>;

/** Tests a service, rule by rule. */
export async function* conform(options: ConformOptions): Results {
  const { url, messaging } = options;
  const run = url === undefined ? undefined : restRun(options, url);
  if (run !== undefined) yield* results(restRules(options), run, run.probe.exchanges, run.notes);
  if (messaging !== undefined) yield* conformInMessaging(options, messaging, run);
}

function restRules({ connections, largeVersionId }: ConformOptions): readonly Rule[] {
  const large = largeVersionId === undefined ? [] : [largeTextRule(largeVersionId)];
  return [...rules, ...large, ...(connections === 0 ? [] : [connectionsRule(connections)])];
}

function restRun(options: ConformOptions, url: string): Run & { readonly notes: string[] } {
  const { apiKey, timeoutMs, serialNumber, propertyId, propertyIds = {}, eventId, versionId, switchToId } = options;
  const probe = new Probe(url, timeoutMs);
  if (apiKey !== undefined) probe.exchanges.hide(apiKey);
  const oldKeys = apiKey === undefined ? [] : [apiKey];
  const notes: string[] = [];
  const note = (text: string): void => void notes.push(text);
  const ids = { serialNumber, propertyId, propertyIds, eventId, versionId, switchToId };
  return { probe, ...ids, oldKeys, keyedCalls: new Map(), notes, note };
}

async function* conformInMessaging(
  { serialNumber, versionId, switchToId, timeoutMs, connections }: ConformOptions,
  messaging: MessagingOptions,
  rest: Run | undefined,
): Results {
  const exchanges = new Exchanges();
  await using stack = new AsyncDisposableStack();
  let probe: MessagingProbe | undefined;
  const connect: Rule<undefined> = {
    id: 'messaging-broker',
    title: 'the broker accepts a connection and a subscription to the reply topic',
    source: 'agent',
    check: async () => {
      probe = stack.use(await MessagingProbe.connect(messaging, timeoutMs, exchanges));
    },
  };
  yield* results([connect], undefined, exchanges);
  if (probe === undefined) return;
  const ids = { serialNumber, versionId, switchToId };
  const run: MessagingRun = { probe, options: messaging, timeoutMs, ...ids, restThing: rest?.thing };
  const untested = new Set([
    ...(rest === undefined ? ['messaging-same-thing'] : []),
    ...(probe.hasCorrelation ? [] : ['messaging-correlation']),
  ]);
  const tested = messagingRules.filter(({ id }) => !untested.has(id));
  const load = connections === 0 ? [] : [messagingConnectionsRule(connections)];
  yield* results([...tested, ...load], run, exchanges);
}

async function* results<R>(all: readonly Rule<R>[], run: R, exchanges: Exchanges, notes: string[] = []): Results {
  // what a rule without calls of its own judges
  let judged: readonly Exchange[] = [];
  for (const rule of all) {
    const finding = await findingOf(rule, run);
    const { id, title } = rule;
    const source = finding?.accepted === undefined ? rule.source : 'agent';
    const note = notes.splice(0)[0];
    const { verdict, message: why, accepted } = finding ?? { verdict: 'pass' as const, message: undefined };
    const outcome = { verdict, why, accepted };
    const own = exchanges.take();
    if (own.length > 0) judged = own;
    yield { rule: id, title, source, note, ...outcome, exchanges: finding === undefined ? own : judged };
  }
}

async function findingOf<R>(rule: Rule<R>, run: R): Promise<Finding | undefined> {
  try {
    await rule.check(run);
    return undefined;
  } catch (error) {
    if (error instanceof Finding) return error;
    throw error;
  }
}

/** The result as text; request and response are shown unless the rule passed. */
export function render({ rule, title, source, note, verdict, why, accepted, exchanges }: Result): string {
  const head = `${verdict.padEnd(8)} ${rule.padEnd(29)} ${title}${note === undefined ? '' : ` (${note})`}`;
  if (verdict === 'pass') return head;
  if (exchanges.length === 0) return [head, `         ${why}`].join('\n');
  const ofAgent = accepted === undefined ? 'expected by the agent' : `the agent accepts ${accepted}`;
  const origin = source === 'interface' ? 'stated by the interface' : `not shown by the interface; ${ofAgent}`;
  return [head, `         ${why} (${origin})`, ...exchanges.flatMap(renderExchange)].join('\n');
}

function renderExchange(exchange: Exchange): readonly string[] {
  const { request, requestHeaders, requestBody, status, responseHeaders = {}, responseBody, error } = exchange;
  return [
    `  > ${request}`,
    ...headerLines('>', requestHeaders),
    ...(requestBody === undefined ? [] : [`  > ${requestBody}`]),
    ...(status === undefined ? [] : [`  < ${status}`]),
    ...headerLines('<', responseHeaders),
    ...(responseBody === undefined || responseBody === '' ? [] : [`  < ${printable(responseBody)}`]),
    ...(error === undefined ? [] : [`  ! ${error}`]),
  ];
}

function headerLines(mark: string, headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).map(([name, value]) => `  ${mark} ${name}: ${value}`);
}

function printable(text: string): string {
  return text.replace(/\p{C}/gu, ' ');
}
