import { appendFileSync } from 'node:fs';
import process from 'node:process';

import { HttpClient } from '../../../../src/service/rest/http-client.ts';
import { BlockWriter } from '../../../../src/slots/blocks/block-writer.ts';

/** Loaded into the agent by `NODE_OPTIONS=--import`: appends the call path of each call of a sink to a file. */
const file = process.env['CALL_PATHS'] ?? '';

Error.stackTraceLimit = 300;

function record(prototype: object, name: string): void {
  const method: unknown = Reflect.get(prototype, name);
  if (typeof method !== 'function') throw new TypeError(`no method ${name}`);
  const apply = (target: typeof method, self: unknown, args: unknown[]): unknown => {
    appendFileSync(file, `${JSON.stringify({ sink: name, stack: new Error(name).stack?.split('\n').slice(1) })}\n`);
    return Reflect.apply(target, self, args);
  };
  Reflect.set(prototype, name, new Proxy(method, { apply }));
}

record(BlockWriter.prototype, 'write');
record(HttpClient.prototype, 'send');
