import type { IncomingMessage, ServerResponse } from 'node:http';

import * as z from 'zod';

import { faultRuleSchema } from './faults.ts';
import type { FaultPlan } from './faults.ts';
import type { RecordedCall } from './rest/server.ts';
import type { World } from './world.ts';

/** Path of the simulator's own controls when it runs alone. */
export const controlPrefix = '/stand-in';

export interface Controlled {
  readonly world: World;
  readonly faults: FaultPlan;
  readonly calls: RecordedCall[];
}

export const controlHelp = `
  GET    ${controlPrefix}/state             things (with their keys), properties, datapoints, pending faults
  GET    ${controlPrefix}/calls             what was called, with headers, body and status
  DELETE ${controlPrefix}/calls             forget them
  POST   ${controlPrefix}/faults            {"operation": "firmware", "fault": {"kind": "reset", "afterBytes": 1000000}, "times": 1, "skip": 0}
  DELETE ${controlPrefix}/faults            no more faults
  PUT    ${controlPrefix}/target            {"version": "2"}, or {} for none
  PUT    ${controlPrefix}/updates           {"from": "1", "to": ["2", "3"]}
  POST   ${controlPrefix}/drop-keys         as if another device had activated with the same serial number
  POST   ${controlPrefix}/forget            as if restored from a backup without any thing`;

type Action = (controlled: Controlled, body: unknown) => unknown;

const targetSchema = z.strictObject({ version: z.string().optional() });
const updatesSchema = z.strictObject({ from: z.string(), to: z.array(z.string()) });

const actions: Readonly<Record<string, Action>> = {
  'GET /state': ({ world, faults }) => ({
    things: world.things.map((thing) => ({
      ...thing,
      properties: Object.fromEntries(thing.properties),
      datapoints: Object.fromEntries(thing.datapoints),
    })),
    targetVersion: world.targetVersionId,
    faults: faults.pending,
  }),
  'GET /calls': ({ calls }) => calls,
  'DELETE /calls': ({ calls }) => {
    calls.length = 0;
  },
  'POST /faults': ({ faults }, body) => faults.add(faultRuleSchema.parse(body)),
  'DELETE /faults': ({ faults }) => faults.clear(),
  'PUT /target': ({ world }, body) => {
    world.targetVersionId = targetSchema.parse(body).version;
  },
  'PUT /updates': ({ world }, body) => {
    const { from, to } = updatesSchema.parse(body);
    world.setUpdates(from, to);
  },
  'POST /forget': ({ world }) => world.forget(),
  'POST /drop-keys': ({ world }) => {
    for (const thing of world.things) world.activate(thing.serialNumber);
  },
};

/** True if the request was for the stand-in itself. */
export function control(
  controlled: Controlled,
  request: IncomingMessage,
  body: string,
  response: ServerResponse,
): boolean {
  const { method = '', url = '' } = request;
  if (!url.startsWith(`${controlPrefix}/`)) return false;
  const action = actions[`${method} ${url.slice(controlPrefix.length)}`];
  if (action === undefined) {
    reply(response, 404, { error: `no such command; there are:${controlHelp}` });
    return true;
  }
  try {
    reply(response, 200, action(controlled, body === '' ? undefined : JSON.parse(body)) ?? {});
  } catch (error) {
    reply(response, 400, { error: error instanceof z.ZodError ? z.prettifyError(error) : String(error) });
  }
  return true;
}

function reply(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(value, undefined, 2)}\n`);
}
