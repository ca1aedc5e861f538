import { readFile } from 'node:fs/promises';

import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { operations } from '../../../../src/service/operations.ts';
import type { Row } from '../../../../src/service/operations.ts';
import { asyncApi, descriptionPaths, openApi, printed } from '../../../../systemd/pages/service-description.ts';

const rows: readonly Row[] = Object.values(operations);

describe.each([
  ['docs/openapi.json', descriptionPaths.openapi, openApi()],
  ['docs/asyncapi.json', descriptionPaths.asyncapi, asyncApi()],
] as const)('%s', (_name, path, description) => {
  test('is current (npm run descriptions)', async () => {
    expect(await readFile(path, 'utf8')).toBe(printed(description));
  });

  test('has only references that exist', () => {
    const references = [...printed(description).matchAll(/"\$ref": "#\/([^"]+)"/g)].map(([, at = '']) => at);
    expect(references.length).toBeGreaterThan(5);
    const missing = references.filter((at) => valueAt(description, at.split('/')) === undefined);
    expect(missing).toEqual([]);
  });
});

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, name) => (typeof at === 'object' && at !== null ? (Reflect.get(at, name) as unknown) : undefined),
    value,
  );
}

const parameter = z.looseObject({ name: z.string(), in: z.string(), required: z.boolean(), schema: z.object() });
const responses = z.record(z.string().regex(/^[1-5]\d\d$|^default$/), z.looseObject({ description: z.string() }));
/** The parts of the OpenAPI Specification 3.1.0 that the description uses. */
const openApiSchema = z.strictObject({
  openapi: z.literal('3.1.0'),
  info: z.strictObject({ title: z.string(), version: z.string(), description: z.string() }),
  paths: z.record(
    z.string().startsWith('/'),
    z.partialRecord(
      z.enum(['get', 'put', 'post']),
      z.strictObject({
        operationId: z.string(),
        summary: z.string(),
        parameters: z.array(parameter),
        security: z.array(z.record(z.string(), z.array(z.string()))),
        requestBody: z.strictObject({ required: z.boolean(), content: z.record(z.string(), z.object()) }).optional(),
        responses,
      }),
    ),
  ),
  components: z.strictObject({ schemas: z.record(z.string(), z.object()), securitySchemes: z.object() }),
});

test('the OpenAPI description has each operation once, with each parameter of its path', () => {
  const { paths } = openApiSchema.parse(openApi());
  const found = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId, parameters }]) => {
      const inPath = parameters.filter((one) => one.in === 'path' && one.required).map(({ name }) => `{${name}}`);
      expect(inPath).toEqual(path.match(/\{\w+\}/g) ?? []);
      return `${operationId} ${method.toUpperCase()} ${path}`;
    }),
  );
  const expected = Object.entries<Row>(operations).map(([name, { method, path }]) => `${name} ${method} ${path}`);
  expect(new Set(found)).toEqual(new Set(expected));
});

test('the AsyncAPI description has each method, as request and reply', () => {
  const schema = z.looseObject({
    asyncapi: z.literal('3.0.0'),
    operations: z.record(z.string(), z.looseObject({ action: z.literal('receive'), reply: z.object() })),
    components: z.looseObject({ messages: z.record(z.string(), z.looseObject({ payload: z.object() })) }),
  });
  const description = schema.parse(asyncApi());
  const names = Object.keys(description.operations);
  expect(names).toHaveLength(rows.filter(({ rpc }) => rpc !== undefined).length);
  expect(Object.keys(description.components.messages)).toEqual(names.flatMap((name) => [name, `${name}Reply`]));
  const methods = [...printed(asyncApi()).matchAll(/"const": "(things\.[\w.]+)"/g)].map(([, method]) => method);
  expect(methods).toEqual(rows.flatMap(({ rpc }) => rpc ?? []));
});
