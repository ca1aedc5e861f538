import { isDeepStrictEqual } from 'node:util';

import { ServiceError } from '../../../../src/service/errors.ts';
import { operations } from '../../../../src/service/operations.ts';
import { readJsonOrText } from '../../../../src/service/replies.ts';
import type { Reply } from '../probe.ts';
import { fail, need, warn } from '../verdict.ts';
import type { KeyedCall, Rule, Run, ValueKind } from '../verdict.ts';
import { expectConsent, isSuccess } from './replies.ts';

const PROPERTY_READ = 'a GET of the property';
const PROPERTY_WRITE = 'a PUT of the property';
const DATAPOINTS = 'a POST of datapoints';
const ACCEPTED_VALUE = 'a reply with status 200 to 299 that is the value as JSON, or as plain text';
/** The service does not accept the value: Bad Request, Unsupported Media Type, Unprocessable Content (RFC 9110). */
const REFUSED_VALUE: ReadonlySet<number> = new Set([400, 415, 422]);

interface PropertyValue {
  readonly kind: ValueKind;
  /** With its article. */
  readonly name: string;
  readonly value: unknown;
}

/** Sets a property, and notes the call for the rules about keys if it succeeds. */
async function setProperty(run: Run, propertyId: string, body: string): Promise<Reply> {
  const { thingId, apiKey } = need(run.thing, 'activation');
  const call = async (key: string | undefined): Promise<Reply> =>
    run.probe.call(operations.setProperty, { thingId, propertyId }, { key, body });
  const reply = await call(apiKey);
  if (isSuccess(reply.status)) noteCall(run, PROPERTY_WRITE, async (key) => (await call(key)).status);
  return reply;
}

async function expectValue(run: Run, propertyId: string, value: unknown): Promise<void> {
  const { thingId, apiKey } = need(run.thing, 'activation');
  const call = async (key: string | undefined): Promise<Reply> =>
    run.probe.call(operations.property, { thingId, propertyId }, { key });
  const reply = await call(apiKey);
  if (!isSuccess(reply.status)) fail(`the value was set, and reading it returns ${reply.status}`, ACCEPTED_VALUE);
  noteCall(run, PROPERTY_READ, async (key) => (await call(key)).status);
  const read = valueOf(reply);
  if (isDeepStrictEqual(read, value)) return;
  const returned = read === undefined ? 'nothing' : JSON.stringify(read);
  fail(`${JSON.stringify(value)} was set, and ${returned} is returned`, ACCEPTED_VALUE);
}

function noteCall({ keyedCalls }: Run, name: string, call: KeyedCall): void {
  if (!keyedCalls.has(name)) keyedCalls.set(name, call);
}

function valueOf({ body }: Reply): unknown {
  try {
    return readJsonOrText(body, 'the call');
  } catch (error) {
    if (error instanceof ServiceError) fail(error.message, ACCEPTED_VALUE);
    throw error;
  }
}

/** Judges a value that the service refused: the property may be of another type. */
async function checkRefused(run: Run, status: number, { kind, name, value }: PropertyValue): Promise<never> {
  const named = run.propertyIds[kind];
  const propertyId = named ?? run.propertyId;
  const refused = `the property ${propertyId} refuses ${name} with status ${status}`;
  if (kind === 'text') {
    const quoted = await setProperty(run, propertyId, JSON.stringify(value));
    if (isSuccess(quoted.status)) {
      await expectValue(run, propertyId, value);
      warn(`${refused}, and accepts it as a JSON string: gateways need property_text = "json" in [service]`);
    }
    if (!run.keyedCalls.has(PROPERTY_WRITE)) fail(`${refused}, and no property accepted any other value`);
  }
  if (named !== undefined) fail(refused);
  const hint = `If it is of another type, name a property that accepts ${name} with --property-${kind}`;
  warn(`${refused}. ${hint}`, 'properties of any type');
}

function property(tested: PropertyValue): Rule {
  const { kind, name, value } = tested;
  return {
    id: `property-${kind}`,
    title: `a property takes ${name} and returns it`,
    source: 'interface',
    check: async (run) => {
      const propertyId = run.propertyIds[kind] ?? run.propertyId;
      const { status, ...reply } = await setProperty(
        run,
        propertyId,
        typeof value === 'string' ? value : JSON.stringify(value),
      );
      if (status === 404) {
        const option = run.propertyIds[kind] === undefined ? '--property' : `--property-${kind}`;
        const why = `the property ${propertyId} does not exist: create it, or name another one with ${option}`;
        warn(why, 'status 404 for a property that does not exist');
      }
      if (REFUSED_VALUE.has(status)) await checkRefused(run, status, tested);
      if (isSuccess(status)) await expectValue(run, propertyId, value);
      expectConsent({ status, ...reply });
    },
  };
}

export const valueRules: readonly Rule[] = [
  property({ kind: 'json', name: 'a JSON object', value: { conform: true, numbers: [1, -2.5], text: 'ü' } }),
  property({ kind: 'number', name: 'a number', value: 23.5 }),
  property({ kind: 'text', name: 'a plain text', value: 'conform: a plain text' }),
  {
    id: 'datapoints',
    title: 'an event takes several datapoints',
    source: 'interface',
    check: async (run) => {
      const { eventId } = run;
      const { thingId, apiKey } = need(run.thing, 'activation');
      const at = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString();
      const body = JSON.stringify([
        { value: 21.5, at: at(2_000) },
        { value: -3, at: at(1_000) },
      ]);
      const call = async (key: string | undefined): Promise<Reply> =>
        run.probe.call(operations.postDatapoints, { thingId, eventId }, { key, body });
      const reply = await call(apiKey);
      if (reply.status === 404) {
        const why = `the event ${eventId} does not exist: create it, or name another one with --event`;
        warn(why, 'status 404 for an event that does not exist');
      }
      if (isSuccess(reply.status)) noteCall(run, DATAPOINTS, async (key) => (await call(key)).status);
      expectConsent(reply);
    },
  },
];

const NO_CALL =
  'not tested: no property and no event is accessible with the key; name others with --property and --event';

/** Returns the calls that demand a key; without properties and events, the current version if the service wants a key. */
async function callsWithKey(run: Run): Promise<ReadonlyMap<string, KeyedCall>> {
  if (run.keyedCalls.size > 0) return run.keyedCalls;
  const { thingId } = need(run.thing, 'activation');
  const current: KeyedCall = async (key) =>
    (await run.probe.call(operations.currentVersion, { thingId }, { key })).status;
  return isKeyRefused(await current(undefined)) ? new Map([['a GET of the current version', current]]) : warn(NO_CALL);
}

const isKeyRefused = (status: number): boolean => status === 401 || status === 403;

export const keyRules: readonly Rule[] = [
  {
    id: 'key-required',
    title: 'properties and events are not accessible without the API key',
    source: 'interface',
    check: async ({ keyedCalls }) => {
      if (keyedCalls.size === 0) warn(NO_CALL);
      const open: string[] = [];
      for (const [name, call] of keyedCalls) if (isSuccess(await call(undefined))) open.push(name);
      const who = 'everyone who knows the thing ID can make the call';
      if (open.length > 0) warn(`${open.join(' and ')} needs no key: ${who}`, 'a service that does not demand the key');
    },
  },
  {
    id: 'key-dropped',
    title: 'the API key of an earlier activation is refused with 401 or 403',
    source: 'interface',
    check: async (run) => {
      const calls = await callsWithKey(run);
      if (run.oldKeys.length === 0) warn('not tested: activation-repeated did not pass');
      for (const key of run.oldKeys) {
        for (const [name, call] of calls) {
          const status = await call(key);
          if (isSuccess(status)) fail(`${name} with the old key returns ${status}: the key is still valid`);
          if (isKeyRefused(status)) continue;
          const why = `${name} with the old key returns ${status}: the agent keeps the invalid key`;
          fail(why, '401 or 403, and only then activates again');
        }
      }
    },
  },
];
