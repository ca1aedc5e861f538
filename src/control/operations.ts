import * as z from 'zod';

import { nestedWithin } from '../system/json-value.ts';
import { plainText } from './absent.ts';
import { MAX_HOLD_MS } from './api/hold-limit.ts';
import type { OnEvent, OperationOutcome } from './events.ts';
import { fileReport } from './file-report.ts';
import { historyReport } from './history.ts';
import {
  standstillReport,
  boardPlan,
  boardProbe,
  boardReport,
  checkReport,
  doctorFinding,
  statusReport,
} from './reports.ts';
import type { FollowedName, Of } from './reports.ts';
import { securityReport } from './security/security-events.ts';
import { flushReply, sensorsReply, telemetryReply, tryInput, tryReply } from './telemetry-protocol.ts';

/**
 * What a person or a local program can ask of the agent, each thing once: the server of the control socket, its client and
 * the interface of the agent in this process follow from this table.
 *
 * On the socket it is HTTP/1.1 with JSON bodies, version 1. A `:name` of the path is that member of the input; the others
 * are the body. What is `answered` replies with one object. What is `followed` replies with lines of JSON (NDJSON):
 * progress, and last the result or the error (events.ts). Every refusal is `{ "error": ReportedError }`.
 * Beside them stands `GET /metrics`, a text made of `status` and `history` (metrics/).
 */
export const operationTable = {
  status: { kind: 'answered', method: 'GET', path: 'status', input: nothing(), output: statusReport, members: 'all' },
  /** Looks at the service, changes nothing. */
  check: { kind: 'answered', method: 'GET', path: 'check', input: nothing(), output: checkReport },
  /** Looks at everything that an update needs; changes nothing. A check that fails is a finding, not an error. */
  doctor: {
    kind: 'answered',
    method: 'GET',
    path: 'doctor',
    input: nothing(),
    output: z.object({ findings: z.array(doctorFinding) }),
  },
  /** The last attempts to install something, across updates. */
  history: {
    kind: 'answered',
    method: 'GET',
    path: 'history',
    input: nothing(),
    output: historyReport,
    members: 'all',
  },
  /** What a file is, for whom, by whose key, and whether it would be installed; changes nothing. */
  inspect: {
    kind: 'answered',
    method: 'POST',
    path: 'inspect',
    input: z.strictObject({ path: filePath() }),
    output: fileReport,
  },
  /** What concerned security, across updates. */
  securityLog: { kind: 'answered', method: 'GET', path: 'security', input: nothing(), output: securityReport },
  activate: {
    kind: 'answered',
    method: 'POST',
    path: 'activate',
    input: nothing(),
    output: z.object({ serialNumber: z.string(), thingId: z.string() }),
  },
  /** A staged slot is booted on its trial by this, too. */
  reboot: { kind: 'answered', method: 'POST', path: 'reboot', input: nothing(), output: done(), beside: 'makes way' },
  /** A version that ended badly may be tried again. Returns the names of those that this concerns. */
  forget: {
    kind: 'answered',
    method: 'POST',
    path: 'forget',
    input: z.strictObject({ version: identifier() }),
    output: z.object({ versions: z.array(z.string()) }),
  },
  /** Nothing is installed until then; a look or a download ends at once, and goes on afterwards. Undefined: until `resume`. */
  hold: {
    kind: 'answered',
    method: 'POST',
    path: 'hold',
    input: z.strictObject({
      durationMs: z.int().positive().max(MAX_HOLD_MS).optional(),
      reason: plainText(200).optional(),
    }),
    output: standstillReport,
    beside: 'pauses',
  },
  /** Whether anything was held. */
  resume: {
    kind: 'answered',
    method: 'POST',
    path: 'resume',
    input: nothing(),
    output: z.object({ wasHeld: z.boolean() }),
  },
  property: {
    kind: 'answered',
    method: 'GET',
    path: 'properties/:id',
    input: z.strictObject({ id: identifier() }),
    output: z.object({ value: z.unknown() }),
    members: 'listed',
  },
  setProperty: {
    kind: 'answered',
    method: 'PUT',
    path: 'properties/:id',
    input: z.strictObject({ id: identifier(), value: jsonValue() }),
    output: takenCareOf(),
    members: 'listed',
  },
  sendDatapoint: {
    kind: 'answered',
    method: 'POST',
    path: 'events/:event/datapoints',
    input: datapoint(),
    output: takenCareOf(),
    members: 'all',
  },
  /** Of several events, all or none; of the daemon: durable or delivered when it resolves. */
  sendDatapoints: {
    kind: 'answered',
    method: 'POST',
    path: 'datapoints',
    input: z.strictObject({
      points: z.array(datapoint().extend({ class: z.enum(['urgent', 'normal', 'bulk']).optional() })).max(10_000),
    }),
    output: takenCareOf(),
    members: 'all',
  },
  /** Sensors, spool and delivery. Throws `spool-elsewhere` where no daemon runs. */
  spool: { kind: 'answered', method: 'GET', path: 'spool', input: nothing(), output: telemetryReply, members: 'all' },
  /** The configured sources of datapoints; where no daemon runs, without figures. */
  sensors: { kind: 'answered', method: 'GET', path: 'sensors', input: nothing(), output: sensorsReply, members: 'all' },
  /** Reads one of them once, now; nothing is kept or sent. */
  trySensor: { kind: 'answered', method: 'POST', path: 'sensors/try', input: tryInput, output: tryReply },
  /** Writes what is in memory. */
  flushSpool: { kind: 'answered', method: 'POST', path: 'spool/flush', input: nothing(), output: flushReply },
  /** The configured microcontrollers. */
  boards: {
    kind: 'answered',
    method: 'GET',
    path: 'boards',
    input: nothing(),
    output: z.object({ boards: z.array(boardReport) }),
    members: 'all',
  },
  /** Asks the bootloader who it is; the application is started again. */
  probeBoard: {
    kind: 'answered',
    method: 'POST',
    path: 'boards/:board/probe',
    input: z.strictObject({ board: identifier() }),
    output: boardProbe,
    beside: 'nothing',
  },
  /** How much flashing this file would change; changes nothing. */
  planBoard: {
    kind: 'answered',
    method: 'POST',
    path: 'boards/:board/plan',
    input: z.strictObject({ board: identifier(), path: filePath() }),
    output: boardPlan,
    beside: 'nothing',
  },
  resetBoard: {
    kind: 'answered',
    method: 'POST',
    path: 'boards/:board/reset',
    input: z.strictObject({ board: identifier() }),
    output: done(),
    beside: 'nothing',
  },

  update: { kind: 'followed', path: 'update', title: 'an update', input: installOptions() },
  /** A decoded artifact or image in a local file, under the same rules. */
  install: {
    kind: 'followed',
    path: 'install',
    title: 'the installation of a file',
    input: installOptions().extend({
      path: filePath(),
      allowDowngrade: z.literal(true).optional().describe('Lifts the floor for this once; root alone may say so.'),
    }),
  },
  /** Keeps a trial without waiting for the health gate. */
  commit: { kind: 'followed', path: 'commit', title: 'a commit', input: nothing() },
  /** Ends a trial, or goes back to what was installed before. */
  rollback: { kind: 'followed', path: 'rollback', title: 'a rollback', input: installOptions() },
  /** Ends a download, or a wait for a reboot. What was downloaded is installed again only when a person asks for it. */
  cancel: { kind: 'followed', path: 'cancel', title: 'a cancellation', input: nothing() },
  flash: {
    kind: 'followed',
    path: 'flash',
    title: 'the flashing of a microcontroller',
    input: z.strictObject({
      board: identifier(),
      path: filePath(),
      allowDowngrade: z.literal(true).optional(),
      keep: z.literal(false).optional().describe('What the board holds is not copied out first.'),
    }),
  },
  /** Puts back what the board held before it was flashed last. */
  restore: {
    kind: 'followed',
    path: 'restore',
    title: 'the restoring of a microcontroller',
    input: z.strictObject({ board: identifier() }),
  },
} as const satisfies Readonly<Record<string, Answered | Followed>> & Readonly<Record<FollowedName, Followed>>;

/** One that replies with one object. */
export interface Answered {
  readonly kind: 'answered';
  readonly method: 'GET' | 'POST' | 'PUT';
  /** After `/v1/`. */
  readonly path: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodType;
  /** Beside what else it may run: anything (undefined), nothing, what it asks for makes way, or what can be taken up again later does (precedence.ts). */
  readonly beside?: 'nothing' | 'makes way' | 'pauses';
  /** Those who may only look may ask for it, too (access.ts); `listed`: of the properties that the configuration names. */
  readonly members?: 'all' | 'listed';
}

/** One that takes its time: it is begun by a POST. One at a time runs (operation-runner.ts). */
export interface Followed {
  readonly kind: 'followed';
  readonly path: string;
  /** What a person calls it who finds it at work. */
  readonly title: string;
  readonly input: z.ZodObject;
}

type Table = typeof operationTable;
export type OperationName = keyof Table;
export type InputOf<Name extends OperationName> = Of<Table[Name]['input']>;
export type OutputOf<Name extends OperationName> = Table[Name] extends {
  readonly output: infer Output extends z.ZodType;
}
  ? Of<Output>
  : OperationOutcome;

/** The table as an interface: of the agent in this process (daemon/agent.ts), or through its socket (control-client.ts). */
export type AgentOperations = {
  readonly [Name in OperationName]: Table[Name] extends { readonly kind: 'followed' }
    ? (input: InputOf<Name>, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>
    : (input: InputOf<Name>, signal: AbortSignal) => Promise<OutputOf<Name>>;
};

/** `reboot` false: stop before the reboot and say that one is needed. `force`: quarantine, attempts, windows and hooks do not count. */
export type InstallOptions = Pick<InputOf<'install'>, 'reboot' | 'force' | 'allowDowngrade'>;

function nothing() {
  return z.strictObject({});
}

function done() {
  return z.object({});
}

/** `disk`: it goes to the service as soon as that takes it. */
function takenCareOf() {
  return z.object({ safeAt: z.enum(['disk', 'service']).optional() });
}

function identifier() {
  return plainText(256);
}

function filePath() {
  return z.string().startsWith('/').max(4096);
}

function installOptions() {
  return z.strictObject({
    reboot: z.boolean().default(true).describe('false: stop before the reboot and say that one is needed.'),
    force: z
      .boolean()
      .default(false)
      .describe(
        'For this order alone, quarantine, attempts, windows and hooks do not count. Never lifts verification.',
      ),
  });
}

function jsonValue() {
  return z
    .unknown()
    .refine((value): boolean => value !== undefined, { error: 'is missing' })
    .refine((value) => nestedWithin(value), { error: 'is nested too deep' });
}

function datapoint() {
  return z.strictObject({ event: identifier(), value: jsonValue(), at: z.iso.datetime().optional() });
}
