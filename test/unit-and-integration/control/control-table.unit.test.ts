import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ControlRequestError, httpStatus, reportError } from '../../../src/control/control-errors.ts';
import { findOperation, readInput } from '../../../src/control/find-operation.ts';
import { OperationRunner } from '../../../src/control/server/operation-runner.ts';
import { answer, follow } from '../../../src/control/server/perform.ts';
import type { Performer } from '../../../src/control/server/perform.ts';
import { AgentError } from '../../../src/system/errors.ts';
import { maxValueDepth, nestedWithin } from '../../../src/system/json-value.ts';
import { ConductedOperation, fakeAgent } from '../cli/fake-operations.ts';

const forever = new AbortController().signal;

/** As the server does it. */
async function ask(method: string, url: string, body?: unknown, performer: Partial<Performer> = {}) {
  const agent = fakeAgent();
  const runner = new OperationRunner({ monotonicMs: () => 0 }, forever);
  const by = { operations: agent, runner, ...performer };
  const found = findOperation(method, url);
  const input = readInput(found, body);
  const { name, entry } = found;
  const reply =
    'output' in entry
      ? await answer(by, { name, entry, input }, forever)
      : await follow(by, { name, input }, () => {}, forever);
  return { reply, calls: agent.calls };
}

test.each<[string, string, unknown, unknown[]]>([
  ['GET', '/v1/status', undefined, ['status', {}]],
  ['GET', '/v1/status?verbose', undefined, ['status', {}]],
  ['GET', '/v1/check', undefined, ['check', {}]],
  ['GET', '/v1/doctor', undefined, ['doctor', {}]],
  ['POST', '/v1/activate', {}, ['activate', {}]],
  ['POST', '/v1/reboot', undefined, ['reboot', {}]],
  ['GET', '/v1/properties/water%20level%2F1', undefined, ['property', { id: 'water level/1' }]],
  ['PUT', '/v1/properties/level', { value: null }, ['setProperty', { id: 'level', value: null }]],
  ['POST', '/v1/events/t/datapoints', { value: 3 }, ['sendDatapoint', { event: 't', value: 3 }]],
  [
    'POST',
    '/v1/events/t/datapoints',
    { value: { a: 1 }, at: '2026-03-01T14:05:09.000Z' },
    ['sendDatapoint', { event: 't', value: { a: 1 }, at: '2026-03-01T14:05:09.000Z' }],
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
      {
        points: [
          { event: 'a', value: 1, class: 'urgent' },
          { event: 'b', value: 'x' },
        ],
      },
    ],
  ],
  ['POST', '/v1/update', undefined, ['update', { reboot: true, force: false }]],
  ['POST', '/v1/update', { reboot: false, force: true }, ['update', { reboot: false, force: true }]],
  ['POST', '/v1/install', { path: '/a.mender' }, ['install', { path: '/a.mender', reboot: true, force: false }]],
  ['POST', '/v1/commit', undefined, ['commit', {}]],
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
  ['POST', '/v1/boards/meter/plan', { board: 'other', path: '/a.hex' }, invalid],
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
        findOperation(method, url);
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
        const input = readInput(findOperation('POST', `/v1/${name}`), sent);
        const { reboot, force } = input as { reboot?: unknown; force?: unknown };
        seen.push(typeof reboot === 'boolean' && typeof force === 'boolean');
      } catch (error) {
        seen.push(error instanceof ControlRequestError);
      }
      expect(seen).toEqual([true]);
    }),
  );
});

test('does not reboot the gateway during staging', async () => {
  const operations = fakeAgent();
  const runner = new OperationRunner({ monotonicMs: () => 0 }, forever);
  const operation = new ConductedOperation();
  const end = runner.run({ operation: 'update' }, operation.run, () => {}, forever);
  (await operation.begun)({ kind: 'phase', phase: 'staging' });
  const refused = ask('POST', '/v1/reboot', undefined, { operations, runner });
  await expect(refused).rejects.toMatchObject({ code: 'agent-busy' });
  expect(operations.calls).toEqual([]);
  operation.end({ kind: 'installed', version: 'v1' });
  await end;
});

describe('the description of a failure for clients', () => {
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
