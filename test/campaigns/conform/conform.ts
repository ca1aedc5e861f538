import type { Exchange } from './probe.ts';
import { Probe } from './probe.ts';
import { firmwareRules } from './rules/firmware.ts';
import { connectionsRule } from './rules/load.ts';
import { provisioningRules, unknownIdRules } from './rules/provisioning.ts';
import { keyRules, valueRules } from './rules/values.ts';
import { Finding } from './verdict.ts';
import type { Rule, Run, Verdict } from './verdict.ts';

/** In this order: later rules use what earlier ones found out. */
export const rules: readonly Rule[] = [
  ...provisioningRules,
  ...firmwareRules,
  ...unknownIdRules,
  ...valueRules,
  ...keyRules,
];

export interface Result {
  readonly rule: string;
  readonly title: string;
  readonly source: Rule['source'];
  readonly verdict: Verdict;
  /** The reason; omitted if the rule passed. */
  readonly why: string | undefined;
  readonly exchanges: readonly Exchange[];
}

export interface ConformOptions {
  readonly url: string;
  readonly serialNumber: string;
  /** A key of an earlier activation of the serial number: it must not be valid after the next one. */
  readonly apiKey?: string | undefined;
  readonly versionId?: string | undefined;
  readonly propertyId: string;
  readonly eventId: string;
  readonly timeoutMs: number;
  /** The number of simultaneous calls to test; 0: none. */
  readonly connections: number;
}

/** Tests a service, rule by rule. */
export async function* conform(options: ConformOptions): AsyncGenerator<Result, void, undefined> {
  const { url, apiKey, timeoutMs, serialNumber, propertyId, eventId, versionId } = options;
  const probe = new Probe(url, timeoutMs);
  if (apiKey !== undefined) probe.hide(apiKey);
  const oldKeys = apiKey === undefined ? [] : [apiKey];
  const run: Run = { probe, serialNumber, propertyId, eventId, versionId, oldKeys };
  const load = options.connections === 0 ? [] : [connectionsRule(options.connections)];
  for (const rule of [...rules, ...load]) {
    const finding = await findingOf(rule, run);
    const { id, title, source } = rule;
    const exchanges = probe.takeExchanges();
    yield { rule: id, title, source, verdict: finding?.verdict ?? 'pass', why: finding?.message, exchanges };
  }
}

async function findingOf(rule: Rule, run: Run): Promise<Finding | undefined> {
  try {
    await rule.check(run);
    return undefined;
  } catch (error) {
    if (error instanceof Finding) return error;
    throw error;
  }
}

/** The result as text; request and response are shown unless the rule passed. */
export function render({ rule, title, source, verdict, why, exchanges }: Result): string {
  const head = `${verdict.padEnd(8)} ${rule.padEnd(23)} ${title}`;
  if (verdict === 'pass') return head;
  const origin = source === 'interface' ? 'stated by the interface' : 'the interface is silent; required by the agent';
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
