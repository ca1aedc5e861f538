import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ControlRequestError, httpStatus, reportError } from '../../../src/control/control-errors.ts';
import { findRoute } from '../../../src/control/control-routes.ts';
import { OperationRunner } from '../../../src/control/operation-runner.ts';
import { AgentError } from '../../../src/system/errors.ts';
import { maxValueDepth, nestedWithin } from '../../../src/system/json-value.ts';
import { ConductedOperation, fakeAgent } from '../cli/fake-operations.ts';

const forever = new AbortController().signal;

function targets(operations = fakeAgent()) {
  return { operations, runner: new OperationRunner({ monotonicMs: () => 0 }, forever) };
}

async function ask(method: string, url: string, body?: unknown) {
  const operations = fakeAgent();
  const { route, parameter } = findRoute(method, url);
  const action = route.prepare(targets(operations), parameter, body);
  const reply = action.kind === 'answer' ? await action.answer(forever) : action.request;
  if (action.kind === 'operation') await action.work(() => {}, forever);
  return { reply, calls: operations.calls };
}

test.each<[string, string, unknown, unknown[]]>([
  ['GET', '/v1/status', undefined, ['status']],
  ['GET', '/v1/status?verbose', undefined, ['status']],
  ['GET', '/v1/check', undefined, ['check']],
  ['GET', '/v1/doctor', undefined, ['doctor']],
  ['POST', '/v1/activate', {}, ['activate']],
  ['POST', '/v1/reboot', undefined, ['reboot']],
  ['GET', '/v1/properties/water%20level%2F1', undefined, ['property', 'water level/1']],
  ['PUT', '/v1/properties/level', { value: null }, ['setProperty', 'level', null]],
  ['POST', '/v1/events/t/datapoints', { value: 3 }, ['sendDatapoint', 't', 3, undefined]],
  [
    'POST',
    '/v1/events/t/datapoints',
    { value: { a: 1 }, at: '2026-03-01T14:05:09.000Z' },
    ['sendDatapoint', 't', { a: 1 }, '2026-03-01T14:05:09.000Z'],
  ],
  [
    'POST',
    '/v1/datapoints',
    {
      points: [
        { event: 'a', value: 1, class: 'urgent' },
        { event: 'b', value: 'x' },
      ],
    },
    [
      'sendDatapoints',
      [
        { event: 'a', value: 1, class: 'urgent' },
        { event: 'b', value: 'x' },
      ],
    ],
  ],
  ['POST', '/v1/update', undefined, ['updateNow', { reboot: true, force: false }]],
  ['POST', '/v1/update', { reboot: false, force: true }, ['updateNow', { reboot: false, force: true }]],
  ['POST', '/v1/install', { path: '/a.mender' }, ['install', '/a.mender', { reboot: true, force: false }]],
  ['POST', '/v1/commit', undefined, ['commit']],
  ['POST', '/v1/rollback', { reboot: false }, ['rollback', { reboot: false, force: false }]],
])('%s %s with %j asks the agent', async (method, url, body, call) => {
  expect((await ask(method, url, body)).calls).toEqual([call]);
});

const unknownRoute = { status: 404, code: 'control-route-unknown' };
const wrongMethod = { status: 405, code: 'control-method-wrong' };
const invalid = { status: 400, code: 'control-request-invalid' };

test.each<[string, string, unknown, object]>([
  ['GET', '/', undefined, unknownRoute],
  ['GET', '/v1', undefined, unknownRoute],
  ['GET', '/v2/status', undefined, unknownRoute],
  ['GET', '/v1/status/', undefined, unknownRoute],
  ['GET', '/v1/nonsense', undefined, unknownRoute],
  ['GET', 'http://host/v1/status', undefined, unknownRoute],
  ['DELETE', '/v1/status', undefined, wrongMethod],
  ['GET', '/v1/update', undefined, wrongMethod],
  ['GET', '/v1/properties/%', undefined, invalid],
  ['GET', '/v1/properties/%FF', undefined, invalid],
  ['GET', '/v1/properties/', undefined, invalid],
  ['GET', `/v1/properties/${'x'.repeat(257)}`, undefined, invalid],
  ['POST', '/v1/update', { reboot: 'yes' }, invalid],
  ['POST', '/v1/update', { rebot: true }, invalid],
  ['POST', '/v1/update', [], invalid],
  ['POST', '/v1/update', 'force', invalid],
  ['POST', '/v1/install', {}, invalid],
  ['POST', '/v1/install', { path: 'relative' }, invalid],
  ['PUT', '/v1/properties/level', {}, invalid],
  ['POST', '/v1/events/t/datapoints', { value: 1, at: 'yesterday' }, invalid],
  ['POST', '/v1/datapoints', { points: [{ event: 'a', value: 1 }, { event: 'b' }] }, invalid],
  ['POST', '/v1/datapoints', { points: [{ event: 'a', value: 1, class: 'vital' }] }, invalid],
])('%s %s with %j is refused: %j', async (method, url, body, refusal) => {
  const refused = await ask(method, url, body).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ControlRequestError);
  expect(refused).toMatchObject(refusal);
});

test('a refusal names the member that is wrong', async () => {
  await expect(ask('POST', '/v1/update', { reboot: 'yes' })).rejects.toThrow(/^reboot: /);
  await expect(ask('PUT', '/v1/properties/level', {})).rejects.toThrow('value: is missing');
});

test('whatever the method and the path, there is a route or a refusal', () => {
  const path = fc.oneof(
    fc.string(),
    fc.array(fc.constantFrom('/', 'v1', 'status', 'properties', '%', '%41', '..', '')).map((parts) => parts.join('/')),
  );
  fc.assert(
    fc.property(fc.constantFrom('GET', 'POST', 'PUT', 'TRACE', ''), path, (method, url) => {
      const refused: unknown[] = [];
      try {
        findRoute(method, url);
      } catch (error) {
        refused.push(error);
      }
      expect(refused.filter((error) => !(error instanceof ControlRequestError))).toEqual([]);
    }),
    { numRuns: 1_000 },
  );
});

test('whatever the body, an operation has valid options or is refused', () => {
  const body = fc.oneof(
    fc.jsonValue(),
    fc.record({
      path: fc.oneof(
        fc.string(),
        fc.string().map((text) => `/${text}`),
      ),
      reboot: fc.boolean(),
      force: fc.boolean(),
    }),
  );
  fc.assert(
    fc.property(fc.constantFrom('update', 'install', 'rollback'), body, (name, sent) => {
      const seen: unknown[] = [];
      try {
        const action = findRoute('POST', `/v1/${name}`).route.prepare(targets(), '', sent);
        const { options } = action.kind === 'operation' ? action.request : { options: undefined };
        seen.push(typeof options?.reboot === 'boolean' && typeof options.force === 'boolean');
      } catch (error) {
        seen.push(error instanceof ControlRequestError);
      }
      expect(seen).toEqual([true]);
    }),
  );
});

test('the gateway is not rebooted while a firmware is staged', async () => {
  const operations = fakeAgent();
  const { runner } = targets();
  const operation = new ConductedOperation();
  const end = runner.run({ operation: 'update' }, operation.run, () => {}, forever);
  (await operation.begun)({ kind: 'phase', phase: 'staging' });
  const action = findRoute('POST', '/v1/reboot').route.prepare({ operations, runner }, '', undefined);
  const refused = action.kind === 'answer' ? action.answer(forever) : undefined;
  await expect(refused).rejects.toMatchObject({ code: 'agent-busy' });
  expect(operations.calls).toEqual([]);
  operation.end({ kind: 'installed', version: 'v1' });
  await end;
});

describe('what the other side is told of a failure', () => {
  test('is all of an expected one', () => {
    const error = new AgentError({
      code: 'disk-full',
      message: 'full',
      remedy: 'retry',
      exit: 'disk',
      advice: 'make room',
    });
    expect(reportError(error)).toEqual({ code: 'disk-full', message: 'full', exit: 'disk', advice: 'make room' });
    expect(httpStatus(error)).toBe(500);
  });

  test('is nothing of a defect', () => {
    const defect = new TypeError('cannot read secret of undefined');
    expect(reportError(defect)).toMatchObject({ code: 'internal-error', exit: 'failed' });
    expect(JSON.stringify(reportError(defect))).not.toContain('secret');
    expect(httpStatus(defect)).toBe(500);
  });
});

test('nesting is measured without a stack', () => {
  const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
  expect(nestedWithin(nested(maxValueDepth))).toBe(true);
  expect(nestedWithin(nested(maxValueDepth + 1))).toBe(false);
  expect(nestedWithin(nested(200_000))).toBe(false);
  expect(nestedWithin({ a: [{ b: 1 }] }, 3)).toBe(true);
  expect(nestedWithin({ a: [{ b: 1 }] }, 2)).toBe(false);
  expect(nestedWithin(null)).toBe(true);
});
