import { isDeepStrictEqual } from 'node:util';

import { ServiceError } from '../../../../src/service/errors.ts';
import { operations } from '../../../../src/service/operations.ts';
import { readJsonOrText } from '../../../../src/service/replies.ts';
import type { Reply } from '../probe.ts';
import { fail, need, warn } from '../verdict.ts';
import type { Rule, Run } from '../verdict.ts';
import { expectConsent, isSuccess } from './replies.ts';

async function readProperty(run: Run, key: string | undefined): Promise<Reply> {
  const { thingId } = need(run.thing, 'activation');
  return run.probe.call(operations.property, { thingId, propertyId: run.propertyId }, { key });
}

function valueOf({ body }: Reply): unknown {
  try {
    return readJsonOrText(body, 'the call');
  } catch (error) {
    if (error instanceof ServiceError) fail(error.message);
    throw error;
  }
}

function property(id: string, kind: string, value: unknown): Rule {
  return {
    id,
    title: `a property takes ${kind} and returns it`,
    source: 'interface',
    check: async (run) => {
      const { thingId, apiKey } = need(run.thing, 'activation');
      const body = typeof value === 'string' ? value : JSON.stringify(value);
      const input = { thingId, propertyId: run.propertyId };
      const set = await run.probe.call(operations.setProperty, input, { key: apiKey, body });
      if (set.status === 404)
        warn(`the property ${run.propertyId} does not exist: create it, or name another one with --property`);
      if (isSuccess(set.status)) {
        const got = await readProperty(run, apiKey);
        if (!isSuccess(got.status)) fail(`the value was set, and reading it returns status ${got.status}`);
        const read = valueOf(got);
        if (!isDeepStrictEqual(read, value)) fail(`${body} was set, and ${JSON.stringify(read)} is returned`);
        run.canReadProperty = true;
      }
      expectConsent(set);
    },
  };
}

export const valueRules: readonly Rule[] = [
  property('property-json', 'a JSON object', { conform: true, numbers: [1, -2.5], text: 'ü' }),
  property('property-number', 'a number', 23.5),
  property('property-text', 'a plain text', 'conform: a plain text'),
  {
    id: 'datapoints',
    title: 'an event takes several datapoints',
    source: 'interface',
    check: async (run) => {
      const { thingId, apiKey } = need(run.thing, 'activation');
      const at = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString();
      const body = JSON.stringify([
        { value: 21.5, at: at(2_000) },
        { value: -3, at: at(1_000) },
      ]);
      const input = { thingId, eventId: run.eventId };
      const reply = await run.probe.call(operations.postDatapoints, input, { key: apiKey, body });
      if (reply.status === 404)
        warn(`the event ${run.eventId} does not exist: create it, or name another one with --event`);
      expectConsent(reply);
    },
  },
];

export const keyRules: readonly Rule[] = [
  {
    id: 'key-required',
    title: 'a property is not readable without the API key',
    source: 'interface',
    check: async (run) => {
      need(run.canReadProperty, 'property-json');
      const { status } = await readProperty(run, undefined);
      if (isSuccess(status)) warn(`the status is ${status}: values are readable by everyone who knows the thing ID`);
    },
  },
  {
    id: 'key-dropped',
    title: 'the API key of an earlier activation is refused with 401 or 403',
    source: 'interface',
    check: async (run) => {
      need(run.canReadProperty, 'property-json');
      if (run.oldKeys.length === 0) warn('not tested: activation-repeated did not pass');
      for (const key of run.oldKeys) {
        const { status } = await readProperty(run, key);
        if (isSuccess(status)) fail(`the status is ${status}: the old key is still valid`);
        if (status !== 401 && status !== 403) {
          fail(`the status is ${status}: the agent activates again only after 401 or 403, and keeps the invalid key`);
        }
      }
    },
  },
];
