import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import * as z from 'zod';

import { operations } from '../../src/service/operations.ts';
import type { Row } from '../../src/service/operations.ts';
import { activationSchema, versionSchema, versionsSchema } from '../../src/service/replies.ts';
import { runTool } from '../make/run-tool.ts';

/** Descriptions of the service for programs, from the table of operations: OpenAPI 3.1 (REST) and AsyncAPI 3.0 (messaging). */

type Json = Readonly<Record<string, unknown>>;

const docs = join(import.meta.dirname, '../../docs');
export const descriptionPaths = { openapi: join(docs, 'openapi.json'), asyncapi: join(docs, 'asyncapi.json') } as const;

const info = {
  title: 'Device provisioning service',
  version: 'v1',
  description:
    'The calls of a gateway with the Thing Agent. docs/service-protocol.md explains how it treats replies; ' +
    '`npm run conform` tests a service.',
} as const;

const text = { type: 'string' } as const;
const encoded = {
  type: 'string',
  description: 'A Mender Artifact or an image in base64, base64url or hexadecimal digits, of any length',
} as const;
const value = { description: 'Any JSON value' } as const;

function schemaOf(type: z.ZodType): Json {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(type, { io: 'input' });
  return schema;
}

const schemas: Json = {
  Activation: schemaOf(activationSchema),
  Version: schemaOf(versionSchema),
  Versions: schemaOf(versionsSchema),
  Firmware: encoded,
  Datapoints: {
    type: 'array',
    items: { type: 'object', required: ['value', 'at'], properties: { value, at: { ...text, format: 'date-time' } } },
  },
  Value: value,
};

/** The name in `schemas` of the result of an operation; omitted if only its success counts. */
const resultOf: Readonly<Record<string, string | undefined>> = {
  activate: 'Activation',
  currentVersion: 'Version',
  targetVersion: 'Version',
  updates: 'Versions',
  firmware: 'Firmware',
  property: 'Value',
};

const rows: readonly (readonly [string, Row])[] = Object.entries(operations);

const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const summaryOf = ({ title }: Row): string => title.replaceAll(/[{}]/g, '');
const parametersIn = (path: string): readonly string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);

export function openApi(): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const [name, row] of rows) (paths[row.path] ??= {})[row.method.toLowerCase()] = restOperation(name, row);
  const apiKey = { type: 'apiKey', in: 'header', name: 'X-ApiKey', description: 'The key that activate returned' };
  return { openapi: '3.1.0', info, paths, components: { schemas, securitySchemes: { apiKey } } };
}

function restOperation(name: string, row: Row): Json {
  const { path, key, body, reply } = row;
  const ranged = reply.form === 'stream' ? ['Range', 'If-Range'] : [];
  const parameters = [
    ...parametersIn(path).map((one) => ({ name: one, in: 'path', required: true, schema: text })),
    ...ranged.map((one) => ({ name: one, in: 'header', required: false, schema: text })),
  ];
  // the key is optional where the service does not require it
  const security = { none: [], provisioning: [{ apiKey: [] }, {}], always: [{ apiKey: [] }] }[key];
  const sent = name === 'postDatapoints' ? reference('Datapoints') : reference('Value');
  const requestBody = { required: true, content: { 'text/json; charset=UTF-8': { schema: sent } } };
  return {
    operationId: name,
    summary: summaryOf(row),
    parameters,
    security,
    ...(body === undefined ? {} : { requestBody }),
    responses: {
      ...success(name, row),
      ...(key === 'none' ? {} : { 404: unknownId, 401: invalidKey }),
      default: other,
    },
  };
}

const unknownId = { description: 'An ID is unknown' };
const invalidKey = { description: 'The key is invalid: the gateway activates again' };
const other = {
  description: 'From 400 to 499: the gateway gives up; 408, 409, 429 and from 500 on: it repeats the call',
  headers: { 'Retry-After': { description: 'Seconds or a date', schema: text } },
};

function success(name: string, { reply }: Row): Json {
  const result = resultOf[name];
  if (result === undefined) return { 204: { description: 'Done' } };
  const content = { 'application/json': { schema: reference(result) } };
  if (reply.form !== 'stream') return { 200: { description: result, content } };
  const headers = {
    ETag: { description: 'Strong: without it a download cannot resume', schema: text },
    'Content-Length': { schema: { type: 'integer' } },
  };
  const part = { ...headers, 'Content-Range': { schema: text } };
  return {
    200: { description: 'The whole text', headers, content },
    206: { description: 'The rest of the text', headers: part, content: { 'application/json': { schema: text } } },
  };
}

/** The service's side: it receives requests and sends replies. */
export function asyncApi(): Json {
  const rpcs = rows.flatMap(([name, row]) => (row.rpc === undefined ? [] : [{ name, row, rpc: row.rpc }]));
  const inChannel = (isActivation: boolean): typeof rpcs =>
    rpcs.filter(({ row }) => (row.key === 'none') === isActivation);
  const messagesOf = (all: typeof rpcs, suffix: string): Json =>
    Object.fromEntries(all.map(({ name }) => [name, { $ref: `#/components/messages/${name}${suffix}` }]));
  const topicId = { description: 'Stands for the gateway. Set in `[service.messaging] topic_id`' };
  const withTopic = { parameters: { topicId } };
  const channels = {
    activate: { address: 'v1.json', messages: messagesOf(inChannel(true), '') },
    request: { address: 'v1.{topicId}.json', ...withTopic, messages: messagesOf(inChannel(false), '') },
    reply: {
      address: 'v1.{topicId}.reply.json',
      ...withTopic,
      description:
        'With MQTT 5, the response topic of the request. The reply has its correlation data and is not retained.',
      messages: messagesOf(rpcs, 'Reply'),
    },
  };
  const messages = rpcs.flatMap(({ name, row, rpc }) => [
    [name, message(name, requestSchema(row, rpc))] as const,
    [`${name}Reply`, message(`${name}Reply`, replySchema(resultOf[name]))] as const,
  ]);
  return {
    asyncapi: '3.0.0',
    info,
    defaultContentType: 'application/json',
    channels,
    operations: Object.fromEntries(rpcs.map(({ name, row }) => [name, messagingOperation(name, row)])),
    components: { schemas, messages: Object.fromEntries(messages) },
  };
}

function messagingOperation(name: string, row: Row): Json {
  const channel = row.key === 'none' ? 'activate' : 'request';
  const inReply = [{ $ref: `#/channels/reply/messages/${name}` }];
  return {
    action: 'receive',
    summary: summaryOf(row),
    channel: { $ref: `#/channels/${channel}` },
    messages: [{ $ref: `#/channels/${channel}/messages/${name}` }],
    reply: { channel: { $ref: '#/channels/reply' }, messages: inReply },
  };
}

function message(name: string, payload: Json): Json {
  return { name, correlationId: { location: '$message.payload#/id' }, payload };
}

const envelope = { jsonrpc: { const: '2.0' }, id: text } as const;

function requestSchema({ path }: Row, rpc: string): Json {
  const names = parametersIn(path);
  const params = { type: 'object', required: names, properties: Object.fromEntries(names.map((name) => [name, text])) };
  return {
    type: 'object',
    required: ['jsonrpc', 'id', 'method', 'params'],
    properties: { ...envelope, method: { const: rpc }, params },
  };
}

function replySchema(result: string | undefined): Json {
  const error = {
    type: 'object',
    required: ['code', 'message'],
    properties: {
      code: { type: 'integer', description: 'A code of JSON-RPC, or from 400 to 599: as the status in REST form' },
      message: text,
    },
  };
  const failed = { type: 'object', required: ['jsonrpc', 'id', 'error'], properties: { ...envelope, error } };
  const done = {
    type: 'object',
    required: ['jsonrpc', 'id', ...(result === undefined ? [] : ['result'])],
    properties: { ...envelope, ...(result === undefined ? {} : { result: reference(result) }) },
    not: { required: ['error'] },
  };
  return { oneOf: [done, failed] };
}

export function printed(description: Json): string {
  return `${JSON.stringify(description, undefined, 2)}\n`;
}

if (import.meta.main) {
  process.exitCode = await runTool('descriptions', 'usage: npm run descriptions\n', async () => {
    parseArgs({ options: {} });
    writeFileSync(descriptionPaths.openapi, printed(openApi()));
    writeFileSync(descriptionPaths.asyncapi, printed(asyncApi()));
    return Promise.resolve();
  });
}
