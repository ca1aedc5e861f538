import { createServer as createHttpServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';

import type { Fault, FaultPlan, Operation } from '../faults.ts';
import { Refused } from '../world.ts';
import type { World } from '../world.ts';
import { answer } from './answer.ts';
import type { Answer, Habits, Request } from './answer.ts';
import { findRoute } from './routes.ts';
import { send } from './send.ts';
import { after, before, insteadOf } from './spoil.ts';

/** A call as it arrived, with the status that it got (0: none). */
export interface RecordedCall {
  readonly operation: Operation | 'unknown';
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
  status: number;
}

export interface TlsSetup {
  readonly key: string;
  readonly cert: string;
  /** Only clients with a certificate of this authority. */
  readonly clientCa?: string | undefined;
}

export interface Service {
  readonly world: World;
  readonly faults: FaultPlan;
  readonly calls: RecordedCall[];
  readonly habits: Habits;
  /** Before every path; without a slash at the end. */
  readonly basePath: string;
  readonly onCall: ((call: RecordedCall) => void) | undefined;
  /** Handles a path outside of interface.md; a result of undefined becomes 404. */
  readonly control: ((request: IncomingMessage, body: string, response: ServerResponse) => boolean) | undefined;
}

const maxRecordedCalls = 100_000;
const maxBodyBytes = 64 * 1024 * 1024;

export function createServer(service: Service, tls: TlsSetup | undefined): Server {
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    handle(service, request, response).catch((error: unknown) => {
      if (!response.destroyed) response.destroy(error instanceof Error ? error : undefined);
    });
  };
  const options = { requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 30_000, noDelay: true };
  if (tls === undefined) return createHttpServer(options, listener);
  const client = tls.clientCa === undefined ? {} : { ca: tls.clientCa, requestCert: true, rejectUnauthorized: true };
  return createHttpsServer({ ...options, key: tls.key, cert: tls.cert, ...client }, listener);
}

async function handle(service: Service, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readBody(incoming);
  if (service.control?.(incoming, body, response) === true) return;
  const { method = '', url: path = '' } = incoming;
  const headers = Object.fromEntries(
    Object.entries(incoming.headers).map(([name, value]) => [name, value?.toString()]),
  );
  const inner = path.startsWith(`${service.basePath}/`) ? path.slice(service.basePath.length) : '';
  const route = findRoute(method, inner);
  const operation = 'status' in route ? 'unknown' : route.operation;
  const call: RecordedCall = { operation, method, path, headers, body, status: 0 };
  if (service.calls.length < maxRecordedCalls) service.calls.push(call);
  const fault = 'status' in route ? undefined : service.faults.next(route.operation, headers['range'] !== undefined);
  const reply =
    'status' in route ? refusal(route.status, 'no such call') : perform(service, { route, headers, body }, fault);
  call.status = isReplyKept(fault) ? 0 : reply.status;
  service.onCall?.(call);
  await send(response, reply, fault);
}

function perform(service: Service, request: Request, fault: Fault | undefined): Answer {
  if (fault === undefined) return answerOrRefuse(service, request);
  const { world } = service;
  return insteadOf(fault) ?? after(fault, answerOrRefuse(service, before(fault, request, world)));
}

function answerOrRefuse({ world, habits }: Service, request: Request): Answer {
  try {
    return answer(request, world, habits);
  } catch (error) {
    if (error instanceof Refused) return refusal(error.status, error.message);
    throw error;
  }
}

/** The caller never sees a status. */
function isReplyKept(fault: Fault | undefined): boolean {
  if (fault?.kind === 'not-http') return true;
  return fault !== undefined && ['reset', 'truncate', 'silence'].includes(fault.kind) && !('afterBytes' in fault);
}

/** interface.md shows no error body; this one is as good as any. */
function refusal(status: number, message: string): Answer {
  const bytes = Buffer.from(JSON.stringify({ error: message }));
  return { status, headers: { 'content-type': 'application/json' }, body: { kind: 'bytes', bytes } };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > maxBodyBytes) throw new Error('the request is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
