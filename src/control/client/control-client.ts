import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';

import type { z } from 'zod';

import { systemErrorCode } from '../../system/errors.ts';
import type { AgentError } from '../../system/errors.ts';
import type { FileContent } from '../../system/files/opened-file.ts';
import { parseExactly } from '../../system/json-value.ts';
import { socketNames } from '../access.ts';
import { isNotPermitted, ReportedFailure } from '../control-errors.ts';
import { errorReply, streamLine } from '../events.ts';
import type { OnEvent, OperationOutcome } from '../events.ts';
import { methodOf } from '../find-operation.ts';
import type { LongOperation } from '../long-operations.ts';
import { makeOperations } from '../make-operations.ts';
import type { OperationInput } from '../make-operations.ts';
import type { AgentOperations, Answered } from '../operations.ts';
import { readBody } from '../server/read-body.ts';
import {
  isReachable,
  type ControlRequest,
  daemonLost,
  exchange,
  readLines,
  replyInvalid,
} from './control-connection.ts';

/**
 * Connects through the socket that grants this program the most rights. Returns undefined if no daemon listens. Throws
 * `control-not-permitted`. Throws `daemon-unresponsive` if the daemon does not reply to a first request that has no
 * effect.
 */
export async function connectToDaemon(
  runDirectory: string,
  patience: Partial<ControlTimeouts>,
  signal: AbortSignal,
): Promise<AgentOperations | undefined> {
  const { greetingMs } = { ...defaultPatience, ...patience };
  const refusals: unknown[] = [];
  for (const caller of ['root', 'operators', 'members'] as const) {
    const path = join(runDirectory, socketNames[caller]);
    try {
      if (await isReachable(path, greetingMs, signal)) return controlClient(path, patience);
    } catch (error) {
      if (!isNotPermitted(error)) throw error;
      refusals.push(error);
    }
  }
  if (refusals.length > 0) throw refusals.at(-1);
  return undefined;
}

/** The timeouts of a client. */
export interface ControlTimeouts {
  /** Until the first reply, which needs no work in the daemon. */
  readonly greetingMs: number;
  /** Until a complete reply; the daemon itself aborts after 120 s. */
  readonly answerMs: number;
  /** Between two lines of an operation; the daemon sends `alive` every 10 s. */
  readonly operationMs: number;
}

const defaultPatience: ControlTimeouts = { greetingMs: 5_000, answerMs: 150_000, operationMs: 60_000 };

const maxReplyBytes = 1024 * 1024;
const maxLineBytes = 64 * 1024;

/** The agent's operations, performed by the daemon that listens on the control socket. */
export function controlClient(socketPath: string, patience: Partial<ControlTimeouts> = {}): AgentOperations {
  const { answerMs, operationMs } = { ...defaultPatience, ...patience };
  return makeOperations({
    answered: (_, entry) => async (input, signal) =>
      exchange(
        socketPath,
        { ...requestFor(entry, input), timeoutMs: answerMs },
        (reply) => readReply(reply, entry.output),
        signal,
      ),
    followed: (_, entry) => async (input, onEvent, signal) =>
      exchange(
        socketPath,
        { ...requestFor(entry, input), timeoutMs: operationMs, isFollowed: true },
        (reply) => readOutcome(reply, onEvent),
        signal,
      ),
  });
}

/** Returns the request for an operation. Its body contains every input that is not in the path. */
function requestFor(
  entry: Answered | LongOperation,
  input: OperationInput,
): Pick<ControlRequest, 'method' | 'path' | 'body' | 'file'> {
  const { file, ...members } = input;
  const body: Record<string, unknown> = members;
  const segments = entry.path.split('/').map((part) => {
    if (!part.startsWith(':')) return part;
    const name = part.slice(1);
    delete body[name];
    return encodeURIComponent(String(input[name]));
  });
  const method = methodOf(entry);
  const path = segments.join('/');
  if (isFile(file)) {
    const query = Object.entries(body)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
    return { method, path: `${path}?${query.join('&')}`, file };
  }
  return Object.keys(body).length === 0 ? { method, path } : { method, path, body };
}

function isFile(value: unknown): value is FileContent {
  return typeof value === 'object' && value !== null && 'read' in value;
}

async function readReply<T extends z.ZodType>(reply: IncomingMessage, schema: T): Promise<z.output<T>> {
  const value = await readJson(reply);
  if (reply.statusCode !== 200) throw asError(value);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw replyInvalid(
    `a member of its reply is missing or invalid: ${parsed.error.issues[0]?.path.join('.') ?? 'something'}`,
  );
}

async function readOutcome(reply: IncomingMessage, onEvent: OnEvent): Promise<OperationOutcome> {
  if (reply.statusCode !== 200) throw asError(await readJson(reply));
  let doesReboot = false;
  try {
    for await (const text of readLines(reply, maxLineBytes)) {
      const line = streamLine.safeParse(parseJson(text));
      if (!line.success) continue; // a newer daemon may send lines that this program does not know
      if (line.data.kind === 'error') throw new ReportedFailure(line.data.error);
      if (line.data.kind === 'result') return line.data.outcome;
      if (line.data.kind !== 'event') continue;
      const { event } = line.data;
      if (event.kind === 'phase') doesReboot = event.phase === 'rebooting';
      onEvent(event);
    }
  } catch (error) {
    throw doesReboot && isEndOfDaemon(error) ? daemonLost('the gateway is rebooting', error) : error;
  }
  throw daemonLost(doesReboot ? 'the gateway is rebooting' : 'its reply ended early');
}

/** True if the daemon stops or the connection failed. */
function isEndOfDaemon(error: unknown): boolean {
  return error instanceof ReportedFailure ? error.code === 'agent-stopping' : systemErrorCode(error) !== undefined;
}

async function readJson(reply: IncomingMessage): Promise<unknown> {
  const text = await readBody(reply, maxReplyBytes);
  if (text === undefined) throw replyInvalid('its reply is too long');
  return parseJson(text);
}

function parseJson(text: string): unknown {
  const value = parseExactly(text);
  if (value === undefined) throw replyInvalid('not JSON');
  return value;
}

/** This program only makes requests of its own version, so a daemon that does not know one is older. */
const olderDaemon: ReadonlySet<string> = new Set(['control-route-unknown', 'control-method-wrong']);
const restartOlder = {
  message: 'the daemon is older than this program, and does not know this request',
  advice: 'restart the daemon: systemctl restart thing-agent',
};

function asError(value: unknown): AgentError {
  const parsed = errorReply.safeParse(value);
  if (!parsed.success) return replyInvalid('unknown error format');
  const { error } = parsed.data;
  return new ReportedFailure(olderDaemon.has(error.code) ? { ...error, ...restartOlder } : error);
}
