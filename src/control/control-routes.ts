import type { z } from 'zod';

import { ControlRequestError } from './control-errors.ts';
import {
  boardFileBody,
  datapointBody,
  datapointsBody,
  flashBody,
  forgetBody,
  installBody,
  installFileBody,
  noBody,
  pathParameter,
  restoreBody,
  valueBody,
} from './control-protocol.ts';
import type { OperationRequest, OperationRunner, OperationWork } from './operation-runner.ts';
import type { AgentOperations } from './operations.ts';

export interface RouteTargets {
  readonly operations: AgentOperations;
  readonly runner: OperationRunner;
}

/** What a valid request asks for: one answer, or an operation that is followed. */
export type Action =
  | { readonly kind: 'answer'; readonly answer: (signal: AbortSignal) => Promise<object> }
  | { readonly kind: 'operation'; readonly request: OperationRequest; readonly work: OperationWork };

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** Segments after `/v1/`; `:` stands for a parameter. */
  readonly path: readonly string[];
  /** Throws ControlRequestError where the body does not fit. */
  readonly prepare: (targets: RouteTargets, parameter: string, body: unknown) => Action;
}

export interface FoundRoute {
  readonly route: Route;
  readonly parameter: string;
}

/** The route of a request line; throws ControlRequestError (404, 405, 400). */
export function findRoute(method: string, url: string): FoundRoute {
  const segments = decodeSegments(url);
  const here = routes.filter((route) => matches(route.path, segments));
  if (here.length === 0) throw new ControlRequestError(404, 'control-route-unknown', 'there is no such path');
  const route = here.find((candidate) => candidate.method === method);
  if (route === undefined) {
    const allowed = here.map((candidate) => candidate.method).join(', ');
    throw new ControlRequestError(405, 'control-method-wrong', `this path takes ${allowed}`);
  }
  return { route, parameter: segments[route.path.indexOf(':')] ?? '' };
}

function decodeSegments(url: string): readonly string[] {
  const [root, version, ...segments] = (url.split('?', 1)[0] ?? '').split('/');
  if (root !== '' || version !== 'v1') return [];
  try {
    return segments.map(decodeURIComponent);
  } catch (error) {
    if (error instanceof URIError) throw invalid('the path is not percent-encoded UTF-8');
    throw error;
  }
}

function matches(path: readonly string[], segments: readonly string[]): boolean {
  return path.length === segments.length && path.every((part, index) => part === ':' || part === segments[index]);
}

function invalid(message: string): ControlRequestError {
  return new ControlRequestError(400, 'control-request-invalid', message);
}

function parse<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? 'the request' : issue.path.join('.');
  throw invalid(`${where}: ${issue?.message ?? 'does not fit'}`);
}

function answering<T extends z.ZodType>(
  method: Route['method'],
  path: readonly string[],
  body: T,
  answer: (
    targets: RouteTargets,
    input: { parameter: string; body: z.output<T> },
    signal: AbortSignal,
  ) => Promise<object>,
): Route {
  return {
    method,
    path,
    prepare: (targets, parameter, raw) => {
      if (path.includes(':')) parse(pathParameter, parameter);
      const input = { parameter, body: parse(body, raw ?? {}) };
      return { kind: 'answer', answer: (signal) => answer(targets, input, signal) };
    },
  };
}

function operating<T extends z.ZodType>(
  name: string,
  body: T,
  begin: (operations: AgentOperations, input: z.output<T>) => Omit<Extract<Action, { kind: 'operation' }>, 'kind'>,
): Route {
  return {
    method: 'POST',
    path: [name],
    prepare: ({ operations }, _parameter, raw) => ({ kind: 'operation', ...begin(operations, parse(body, raw ?? {})) }),
  };
}

const routes: readonly Route[] = [
  answering('GET', ['status'], noBody, ({ operations }, _input, signal) => operations.status(signal)),
  answering('GET', ['check'], noBody, ({ operations }, _input, signal) => operations.check(signal)),
  answering('GET', ['doctor'], noBody, async ({ operations }, _input, signal) => ({
    findings: await operations.doctor(signal),
  })),
  answering('POST', ['activate'], noBody, ({ operations }, _input, signal) => operations.activate(signal)),
  answering('POST', ['reboot'], noBody, async ({ operations, runner }, _input, signal) => {
    await runner.makeWay({ operation: 'reboot' }, signal);
    await operations.reboot(signal);
    return {};
  }),
  answering('POST', ['forget'], forgetBody, async ({ operations }, { body }, signal) => ({
    versions: await operations.forget(body.version, signal),
  })),
  answering('GET', ['properties', ':'], noBody, async ({ operations }, { parameter }, signal) => ({
    value: await operations.property(parameter, signal),
  })),
  answering('PUT', ['properties', ':'], valueBody, async ({ operations }, { parameter, body }, signal) => {
    await operations.setProperty(parameter, body.value, signal);
    return {};
  }),
  answering(
    'POST',
    ['events', ':', 'datapoints'],
    datapointBody,
    async ({ operations }, { parameter, body }, signal) => {
      await operations.sendDatapoint(parameter, body.value, body.at, signal);
      return {};
    },
  ),
  answering('POST', ['datapoints'], datapointsBody, async ({ operations }, { body }, signal) => {
    await operations.sendDatapoints(body.points, signal);
    return {};
  }),
  answering('GET', ['spool'], noBody, ({ operations }, _input, signal) => operations.spool(signal)),
  answering('POST', ['spool', 'flush'], noBody, ({ operations }, _input, signal) => operations.flushSpool(signal)),
  answering('GET', ['boards'], noBody, async ({ operations }, _input, signal) => ({
    boards: await operations.boards(signal),
  })),
  answering('POST', ['boards', ':', 'probe'], noBody, async ({ operations, runner }, { parameter }, signal) => {
    runner.refuseWhileBusy();
    return operations.probeBoard(parameter, signal);
  }),
  answering('POST', ['boards', ':', 'plan'], boardFileBody, async (targets, { parameter, body }, signal) => {
    targets.runner.refuseWhileBusy();
    return targets.operations.planBoard(parameter, body.path, signal);
  }),
  answering('POST', ['boards', ':', 'reset'], noBody, async ({ operations, runner }, { parameter }, signal) => {
    runner.refuseWhileBusy();
    await operations.resetBoard(parameter, signal);
    return {};
  }),
  operating('update', installBody, (operations, options) => ({
    request: { operation: 'update', options },
    work: (onEvent, signal) => operations.updateNow(options, onEvent, signal),
  })),
  operating('install', installFileBody, (operations, { path, ...options }) => ({
    request: { operation: 'install', path, options },
    work: (onEvent, signal) => operations.install(path, options, onEvent, signal),
  })),
  operating('commit', noBody, (operations) => ({
    request: { operation: 'commit' },
    work: (onEvent, signal) => operations.commit(onEvent, signal),
  })),
  operating('rollback', installBody, (operations, options) => ({
    request: { operation: 'rollback', options },
    work: (onEvent, signal) => operations.rollback(options, onEvent, signal),
  })),
  operating('cancel', noBody, (operations) => ({
    request: { operation: 'cancel' },
    work: async (onEvent, signal, interrupted) => {
      const outcome = await operations.cancel(onEvent, signal);
      const { board } = interrupted ?? {};
      return outcome.kind === 'cancelled' || board === undefined ? outcome : { kind: 'cancelled', version: board };
    },
  })),
  operating('flash', flashBody, (operations, { board, path }) => ({
    request: { operation: 'flash', board, path },
    work: (onEvent, signal) => operations.flashBoard({ name: board, path }, onEvent, signal),
  })),
  operating('restore', restoreBody, (operations, { board }) => ({
    request: { operation: 'restore', board },
    work: (onEvent, signal) => operations.restoreBoard(board, onEvent, signal),
  })),
];
