import type { IncomingMessage } from 'node:http';

import type { z } from 'zod';

import type { AgentError } from '../system/errors.ts';
import type { TelemetryStatus } from '../telemetry/telemetry-status.ts';
import type { LocalPoint } from '../telemetry/telemetry.ts';
import {
  type ControlRequest,
  daemonLost,
  exchange,
  readLines,
  readText,
  replyInvalid,
  translate,
} from './control-connection.ts';
import { ControlError, ReportedFailure } from './control-errors.ts';
import * as protocol from './control-protocol.ts';
import { somebodyAnswers } from './control-socket.ts';
import type {
  AgentOperations,
  BoardFile,
  BoardPlan,
  BoardProbe,
  BoardReport,
  CheckReport,
  DoctorFinding,
  InstallOptions,
  OnEvent,
  OperationOutcome,
  StatusReport,
} from './operations.ts';
import { flushReply, telemetryReply } from './telemetry-protocol.ts';

/** `undefined`: nobody answers there. Throws `control-not-permitted`. */
export async function connectToDaemon(
  socketPath: string,
  patience: Partial<ControlPatience> = {},
): Promise<ControlClient | undefined> {
  try {
    return (await somebodyAnswers(socketPath)) ? new ControlClient(socketPath, patience) : undefined;
  } catch (error) {
    throw translate(error, socketPath);
  }
}

/** How long the daemon may say nothing. */
export interface ControlPatience {
  /** The daemon itself gives up after 120 s. */
  readonly answerMs: number;
  /** The daemon says `alive` every 10 s. */
  readonly operationMs: number;
}

const defaultPatience: ControlPatience = { answerMs: 150_000, operationMs: 60_000 };

const maxReplyBytes = 1024 * 1024;
const maxLineBytes = 64 * 1024;

/** The agent's operations, done by the daemon that answers on the control socket. */
export class ControlClient implements AgentOperations {
  readonly #socketPath: string;
  readonly #patience: ControlPatience;

  constructor(socketPath: string, patience: Partial<ControlPatience> = {}) {
    this.#socketPath = socketPath;
    this.#patience = { ...defaultPatience, ...patience };
  }

  status(signal: AbortSignal): Promise<StatusReport> {
    return this.#answer({ method: 'GET', path: 'status' }, protocol.statusReply, signal);
  }

  check(signal: AbortSignal): Promise<CheckReport> {
    return this.#answer({ method: 'GET', path: 'check' }, protocol.checkReply, signal);
  }

  async doctor(signal: AbortSignal): Promise<readonly DoctorFinding[]> {
    return (await this.#answer({ method: 'GET', path: 'doctor' }, protocol.doctorReply, signal)).findings;
  }

  activate(signal: AbortSignal): Promise<{ readonly serialNumber: string; readonly thingId: string }> {
    return this.#answer({ method: 'POST', path: 'activate' }, protocol.activateReply, signal);
  }

  async reboot(signal: AbortSignal): Promise<void> {
    await this.#answer({ method: 'POST', path: 'reboot' }, protocol.emptyReply, signal);
  }

  async forget(version: string, signal: AbortSignal): Promise<readonly string[]> {
    const asked = { method: 'POST', path: 'forget', body: { version } } as const;
    return (await this.#answer(asked, protocol.forgetReply, signal)).versions;
  }

  async property(propertyId: string, signal: AbortSignal): Promise<unknown> {
    const path = `properties/${encodeURIComponent(propertyId)}`;
    return (await this.#answer({ method: 'GET', path }, protocol.valueReply, signal)).value;
  }

  async setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void> {
    const path = `properties/${encodeURIComponent(propertyId)}`;
    await this.#answer({ method: 'PUT', path, body: { value } }, protocol.emptyReply, signal);
  }

  async sendDatapoint(eventId: string, value: unknown, at: string | undefined, signal: AbortSignal): Promise<void> {
    const path = `events/${encodeURIComponent(eventId)}/datapoints`;
    await this.#answer({ method: 'POST', path, body: { value, at } }, protocol.emptyReply, signal);
  }

  async sendDatapoints(points: readonly LocalPoint[], signal: AbortSignal): Promise<void> {
    await this.#answer({ method: 'POST', path: 'datapoints', body: { points } }, protocol.emptyReply, signal);
  }

  spool(signal: AbortSignal): Promise<TelemetryStatus> {
    return this.#answer({ method: 'GET', path: 'spool' }, telemetryReply, signal);
  }

  flushSpool(signal: AbortSignal): Promise<{ readonly onDisk: boolean }> {
    return this.#answer({ method: 'POST', path: 'spool/flush' }, flushReply, signal);
  }

  updateNow(options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('update', options, onEvent, signal);
  }

  install(path: string, options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    if (options.allowDowngrade === true) return Promise.reject(noDowngradeHere());
    return this.#operate('install', { path, ...options }, onEvent, signal);
  }

  commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('commit', {}, onEvent, signal);
  }

  cancel(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('cancel', {}, onEvent, signal);
  }

  rollback(options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('rollback', options, onEvent, signal);
  }

  async boards(signal: AbortSignal): Promise<readonly BoardReport[]> {
    return (await this.#answer({ method: 'GET', path: 'boards' }, protocol.boardsReply, signal)).boards;
  }

  probeBoard(name: string, signal: AbortSignal): Promise<BoardProbe> {
    const path = `boards/${encodeURIComponent(name)}/probe`;
    return this.#answer({ method: 'POST', path }, protocol.probeReply, signal);
  }

  planBoard(name: string, file: string, signal: AbortSignal): Promise<BoardPlan> {
    const path = `boards/${encodeURIComponent(name)}/plan`;
    return this.#answer({ method: 'POST', path, body: { path: file } }, protocol.planReply, signal);
  }

  async resetBoard(name: string, signal: AbortSignal): Promise<void> {
    const path = `boards/${encodeURIComponent(name)}/reset`;
    await this.#answer({ method: 'POST', path }, protocol.emptyReply, signal);
  }

  flashBoard({ name, path }: BoardFile, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('flash', { board: name, path }, onEvent, signal);
  }

  restoreBoard(name: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    return this.#operate('restore', { board: name }, onEvent, signal);
  }

  #answer<T extends z.ZodType>(
    asked: Omit<ControlRequest, 'silentMs'>,
    schema: T,
    signal: AbortSignal,
  ): Promise<z.output<T>> {
    const request = { ...asked, silentMs: this.#patience.answerMs };
    return exchange(this.#socketPath, request, (reply) => readReply(reply, schema), signal);
  }

  #operate(path: string, body: object, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const request = { method: 'POST', path, body, silentMs: this.#patience.operationMs } as const;
    return exchange(this.#socketPath, request, (reply) => readOutcome(reply, onEvent), signal);
  }
}

async function readReply<T extends z.ZodType>(reply: IncomingMessage, schema: T): Promise<z.output<T>> {
  const value = parseJson(await readText(reply, maxReplyBytes));
  if (reply.statusCode !== 200) throw asError(value);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw replyInvalid(`its reply lacks or misspells ${parsed.error.issues[0]?.path.join('.') ?? 'something'}`);
}

async function readOutcome(reply: IncomingMessage, onEvent: OnEvent): Promise<OperationOutcome> {
  if (reply.statusCode !== 200) throw asError(parseJson(await readText(reply, maxReplyBytes)));
  for await (const text of readLines(reply, maxLineBytes)) {
    const line = protocol.streamLine.safeParse(parseJson(text));
    if (!line.success) continue; // a newer daemon may tell more than we understand
    if (line.data.kind === 'event') onEvent(line.data.event);
    if (line.data.kind === 'error') throw new ReportedFailure(line.data.error);
    if (line.data.kind === 'result') return line.data.outcome;
  }
  throw daemonLost('its reply ended early');
}

function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) throw replyInvalid('not JSON');
    throw error;
  }
}

function asError(value: unknown): AgentError {
  const parsed = protocol.errorReply.safeParse(value);
  return parsed.success ? new ReportedFailure(parsed.data.error) : replyInvalid('not an error of ours');
}

/** Everyone in the group may use the socket; the floor is lifted by root alone. */
function noDowngradeHere(): ControlError {
  return new ControlError('control-not-permitted', 'an older release cannot be installed through the daemon', {
    advice: 'as root: systemctl stop thing-agent, install it, systemctl start thing-agent',
  });
}
