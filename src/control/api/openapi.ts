import * as z from 'zod';

import { callersOf, socketNames } from '../access.ts';
import { errorReply, streamLine } from '../events.ts';
import { methodOf } from '../find-operation.ts';
import type { LongOperation } from '../long-operations.ts';
import { openMetricsType } from '../metrics/render-metrics.ts';
import { operationTable } from '../operations.ts';
import type { Answered, OperationName } from '../operations.ts';

type Json = Readonly<Record<string, unknown>>;

/** Returns the table of operations as an OpenAPI 3.1 document. */
export function openApi(agentVersion: string): Json {
  const paths: Record<string, Json> = { '/metrics': { get: metricsOperation() } };
  for (const [name, entry] of entries()) {
    const path = `/v1/${entry.path.replaceAll(/:(\w+)/g, '{$1}')}`;
    paths[path] = { ...paths[path], [methodOf(entry).toLowerCase()]: operation(name, entry) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Thing Agent', version: agentVersion, description: description.join(' ') },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: 'http://agent', description: 'A Unix socket in /run/thing-agent; the host name is ignored.' }],
    paths,
    components: { schemas: schemas() },
  };
}

const description = [
  'HTTP/1.1 over Unix sockets, one request per connection. x-sockets lists the sockets that serve an operation:',
  'status.sock for members of the group thing-agent, control.sock for members of thing-operators, root.sock for root.',
  'Long operations reply with lines of JSON, each a StreamLine: events, then the result or the error. If you disconnect, the',
  'operation continues; if you send the same request again, you follow the running operation.',
  'Undefined members are omitted.',
  'Later versions may add members to replies, kinds of events, and codes. Ignore unknown ones.',
];

function entries(): readonly (readonly [OperationName, Answered | LongOperation])[] {
  const names = Object.keys(operationTable).filter(isName);
  return names.map((name) => [name, operationTable[name]]);
}

function isName(name: string): name is OperationName {
  return Object.hasOwn(operationTable, name);
}

function operation(name: OperationName, entry: Answered | LongOperation): Json {
  const inPath = new Set([...entry.path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter));
  const { properties = {}, required = [] } = jsonSchema(entry.input);
  const members = Object.entries(properties).map(([member, schema]) => ({
    member,
    schema,
    isInPath: inPath.has(member),
  }));
  const parameters = members.filter(({ isInPath }) => isInPath || entry.takesFile === true);
  const rest = members.filter(({ isInPath }) => !isInPath);
  const body = Object.fromEntries(rest.map(({ member, schema }) => [member, schema]));
  const needed = required.filter((member) => !inPath.has(member));
  return {
    operationId: name,
    summary: entry.summary,
    'x-sockets': callersOf(entry).map((caller) => socketNames[caller]),
    ...('output' in entry && entry.members === 'listed' && { description: listedOnly }),
    ...(parameters.length > 0 && {
      parameters: parameters.map(({ member, schema, isInPath }) => ({
        name: member,
        in: isInPath ? 'path' : 'query',
        required: required.includes(member),
        schema,
      })),
    }),
    ...(Object.keys(body).length > 0 && {
      requestBody:
        entry.takesFile === true
          ? { required: true, content: { 'application/octet-stream': {} } }
          : {
              required: needed.length > 0,
              content: inJson({ type: 'object', properties: body, required: needed, additionalProperties: false }),
            },
    }),
    responses: { 200: 'output' in entry ? answer(name) : stream, default: refusal },
  };
}

const listedOnly = 'status.sock only gives access to the properties in [control] properties.';

function answer(name: OperationName): Json {
  return { description: 'The reply.', content: inJson(reference(replyName(name))) };
}

const stream: Json = {
  description: 'Lines of this schema; the last line is a result or an error.',
  content: { 'application/x-ndjson': { schema: reference('StreamLine') } },
};

const refusal: Json = { description: 'An error.', content: inJson(reference('ErrorReply')) };

function metricsOperation(): Json {
  return {
    operationId: 'metrics',
    summary: 'Returns status and history as OpenMetrics.',
    'x-sockets': Object.values(socketNames),
    responses: {
      200: { description: 'The metrics.', content: { [openMetricsType]: { schema: { type: 'string' } } } },
      default: refusal,
    },
  };
}

function inJson(schema: Json): Json {
  return { 'application/json': { schema } };
}

function reference(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

function replyName(name: OperationName): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}Reply`;
}

/** Returns the schemas of replies and stream lines, before a client transforms them. */
function schemas(): Json {
  const answers = entries().flatMap(([name, entry]) =>
    'output' in entry ? [[replyName(name), jsonSchema(entry.output)] as const] : [],
  );
  return { ...Object.fromEntries(answers), StreamLine: jsonSchema(streamLine), ErrorReply: jsonSchema(errorReply) };
}

interface ObjectSchema extends Json {
  readonly properties?: Json;
  readonly required?: readonly string[];
}

function jsonSchema(schema: z.ZodType): ObjectSchema {
  const { $schema: _dialect, ...made } = z.toJSONSchema(schema, {
    io: 'input',
    override: ({ jsonSchema: part }) => {
      if (part.format === 'starts_with') delete part.format; // JSON Schema has no such format; the pattern is enough
    },
  });
  return made;
}
