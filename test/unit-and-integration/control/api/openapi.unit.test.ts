import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { permitted, socketNames } from '../../../../src/control/access.ts';
import type { Caller } from '../../../../src/control/access.ts';
import { openApi } from '../../../../src/control/api/openapi.ts';
import { ControlError } from '../../../../src/control/control-errors.ts';
import { findOperation } from '../../../../src/control/find-operation.ts';
import { operationTable } from '../../../../src/control/operations.ts';
import { controlLimits } from '../../../../src/control/server/control-limits.ts';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly 'x-sockets': readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, MediaType>> };
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, MediaType>> }>>;
}
interface MediaType {
  /** The schema, except for the content of a file. */
  readonly schema?: { readonly $ref?: string; readonly properties?: object };
}

const document = openApi('0.1.0') as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};
const described = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation, name: operation.operationId })),
);
const ofTable = described.filter(({ name }) => name !== 'metrics');

describe('the OpenAPI document', () => {
  test('has each operation of the table once, and the metrics', () => {
    expect(described.map(({ name }) => name).sort()).toEqual([...Object.keys(operationTable), 'metrics'].sort());
  });

  test.each(ofTable)('describes $name with the method and path that the server uses', ({ method, path, name }) => {
    const found = findOperation(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, 'x'));
    expect(found.name).toBe(name);
  });

  test.each(ofTable)('names the sockets that serve $name', ({ method, path, operation }) => {
    const found = findOperation(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, 'x'));
    const serving = (Object.keys(socketNames) as Caller[]).filter((caller) => {
      try {
        permitted(caller, found, path.includes('{id}') ? { id: 'x' } : {}, ['x']);
        return true;
      } catch (error) {
        if (!(error instanceof ControlError)) throw error;
        return false;
      }
    });
    expect([...operation['x-sockets']].sort()).toEqual(serving.map((caller) => socketNames[caller]).sort());
  });

  test.each(described)(
    '$name is complete: its parameters, its summary, and schemas that are there',
    ({ path, operation }) => {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, member]) => member);
      const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
      expect(parameters.map(({ name }) => name)).toEqual(inPath);
      expect(operation.summary).toMatch(/^[A-Z].*\.$/);
      expect(Object.keys(operation.responses)).toEqual(['200', 'default']);
      const bodies = [operation.requestBody, ...Object.values(operation.responses)].flatMap((part) =>
        Object.values(part?.content ?? {}),
      );
      for (const { schema } of bodies) {
        if (schema?.$ref === undefined) continue;
        expect(Object.keys(document.components.schemas)).toContain(schema.$ref.replace('#/components/schemas/', ''));
      }
    },
  );

  test('describes an input with the checks of the table', () => {
    const body = document.paths['/v1/unblock']?.['post']?.requestBody;
    expect(body).toMatchObject({
      required: true,
      content: { 'application/json': { schema: { required: ['version'], additionalProperties: false } } },
    });
    const plan = document.paths['/v1/boards/{board}/plan']?.['post'];
    expect(plan?.requestBody).toEqual({ required: true, content: { 'application/octet-stream': {} } });
    expect(plan?.parameters).toMatchObject([
      { name: 'board', in: 'path', required: true },
      { name: 'path', in: 'query', required: true },
    ]);
    expect(document.paths['/v1/update']?.['post']?.requestBody?.required).toBe(false);
    expect(document.paths['/v1/status']?.['get']?.requestBody).toBeUndefined();
  });

  test('describes the meaning of a member', () => {
    expect(document.components.schemas['StatusReply']).toMatchObject({
      properties: { state: { description: expect.stringContaining('The state of the gateway') as unknown } },
    });
  });

  test('has nothing that JSON Schema does not know', () => {
    const text = JSON.stringify(document);
    expect(text).not.toContain('starts_with');
    expect(text).not.toContain('$schema"');
  });
});

test('the page for programs names the limits that are kept', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/api.md'), 'utf8').replaceAll(/\s+/g, ' ');
  const { maxBodyBytes, maxHeaderBytes, requestMs, maxAtOnce, answerMs, stalledMs, slowFileMs, aliveMs } =
    controlLimits;
  expect(page).toContain(
    `of ${maxBodyBytes / 1024} KiB at most (headers ${maxHeaderBytes / 1024} KiB), complete within ${requestMs / 1000} s`,
  );
  expect(page).toContain(`answers ${maxAtOnce} requests at the same time`);
  expect(page).toContain(`within ${answerMs / 1000} s`);
  expect(page).toContain(`reads nothing for ${stalledMs / 1000} s`);
  expect(page).toContain(`must not pause for ${stalledMs / 1000} s`);
  expect(slowFileMs).toBe(60_000); // "a minute"
  expect(aliveMs).toBe(10_000); // "ten seconds"
});
