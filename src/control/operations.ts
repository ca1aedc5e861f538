import * as z from 'zod';

import { plainText } from './absent.ts';
import { MAX_HOLD_MS } from './api/hold-limit.ts';
import {
  datapoint,
  done,
  filePath,
  identifier,
  installFlags,
  jsonValue,
  nothing,
  takenCareOf,
} from './api/operation-parts.ts';
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
 * Everything that a person or a local program can ask of the agent. The control socket's server and client and the
 * interface of the agent in this process follow from this table.
 *
 * On the socket it is HTTP/1.1 with JSON bodies, version 1. A `:name` in the path is the input's member of this name;
 * the others are the body. An `answered` operation replies with one object, a `followed` one with lines of JSON
 * (NDJSON): its progress, then the result or the error (events.ts). A refusal is `{ "error": ReportedError }`.
 */
export const operationTable = {
  status: { kind: 'answered', method: 'GET', path: 'status', input: nothing(), output: statusReport, members: 'all' },
  /** Asks the service what an update would do; changes nothing. */
  check: { kind: 'answered', method: 'GET', path: 'check', input: nothing(), output: checkReport },
  /** Checks everything that an update needs; changes nothing. A check that fails is a finding, not an error. */
  doctor: {
    kind: 'answered',
    method: 'GET',
    path: 'doctor',
    input: nothing(),
    output: z.object({ findings: z.array(doctorFinding) }),
  },
  /** The last attempts to install something; they survive updates. */
  history: {
    kind: 'answered',
    method: 'GET',
    path: 'history',
    input: nothing(),
    output: historyReport,
    members: 'all',
  },
  /** What a file contains, whom it is for, whose key signed it, and whether it would be installed; changes nothing. */
  inspect: {
    kind: 'answered',
    method: 'POST',
    path: 'inspect',
    input: z.strictObject({ path: filePath() }),
    output: fileReport,
  },
  /** The security events; they survive updates. */
  securityLog: { kind: 'answered', method: 'GET', path: 'security', input: nothing(), output: securityReport },
  activate: {
    kind: 'answered',
    method: 'POST',
    path: 'activate',
    input: nothing(),
    output: z.object({ serialNumber: z.string(), thingId: z.string() }),
  },
  /** Reboots the gateway. If a slot is staged, this starts its trial. */
  reboot: { kind: 'answered', method: 'POST', path: 'reboot', input: nothing(), output: done(), beside: 'makes way' },
  /** Allows a version that failed to be tried again. Returns the names of all versions that this concerns. */
  forget: {
    kind: 'answered',
    method: 'POST',
    path: 'forget',
    input: z.strictObject({ version: identifier() }),
    output: z.object({ versions: z.array(z.string()) }),
  },
  /**
   * Stops installing for `durationMs`, or until `resume`. A look or a download is interrupted and continues afterwards.
   */
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
  /** Ends a hold; tells whether there was one. */
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
  /** Takes datapoints for several events, all or none. The daemon answers when they are durable or delivered. */
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
  /** The state of sensors, spool and delivery. Throws `spool-elsewhere` if no daemon runs. */
  spool: { kind: 'answered', method: 'GET', path: 'spool', input: nothing(), output: telemetryReply, members: 'all' },
  /** The configured sources of datapoints; without a daemon, there are no readings. */
  sensors: { kind: 'answered', method: 'GET', path: 'sensors', input: nothing(), output: sensorsReply, members: 'all' },
  /** Reads one source once, now; nothing is kept or sent. */
  trySensor: { kind: 'answered', method: 'POST', path: 'sensors/try', input: tryInput, output: tryReply },
  /** Writes to the disk what the spool still holds in memory. */
  flushSpool: { kind: 'answered', method: 'POST', path: 'spool/flush', input: nothing(), output: flushReply },
  /** The configured boards. */
  boards: {
    kind: 'answered',
    method: 'GET',
    path: 'boards',
    input: nothing(),
    output: z.object({ boards: z.array(boardReport) }),
    members: 'all',
  },
  /** Asks the bootloader of a board for its identity, and starts the application again. */
  probeBoard: {
    kind: 'answered',
    method: 'POST',
    path: 'boards/:board/probe',
    input: z.strictObject({ board: identifier() }),
    output: boardProbe,
    beside: 'nothing',
  },
  /** Tells how much flashing this file would change; changes nothing. */
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

  update: { kind: 'followed', path: 'update', title: 'an update', input: installFlags() },
  /** Installs a decoded artifact or image from a local file, under the same rules as one from the service. */
  install: {
    kind: 'followed',
    path: 'install',
    title: 'the installation of a file',
    input: installFlags().extend({
      path: filePath(),
      allowDowngrade: z.literal(true).optional().describe('Lifts the floor for this once; root alone may say so.'),
    }),
  },
  /** Keeps a trial without waiting for the health gate. */
  commit: { kind: 'followed', path: 'commit', title: 'a commit', input: nothing() },
  /** Ends a trial, or goes back to what was installed before. */
  rollback: { kind: 'followed', path: 'rollback', title: 'a rollback', input: installFlags() },
  /** Ends a download, or a wait for a reboot. The agent installs this version again only when a person asks for it. */
  cancel: { kind: 'followed', path: 'cancel', title: 'a cancellation', input: nothing() },
  flash: {
    kind: 'followed',
    path: 'flash',
    title: 'the flashing of a board',
    input: z.strictObject({
      board: identifier(),
      path: filePath(),
      allowDowngrade: z.literal(true).optional(),
      keep: z.literal(false).optional().describe('What the board holds is not copied out first.'),
    }),
  },
  /** Puts back what the board held before it was last flashed. */
  restore: {
    kind: 'followed',
    path: 'restore',
    title: 'the restoring of a board',
    input: z.strictObject({ board: identifier() }),
  },
} as const satisfies Readonly<Record<string, Answered | Followed>> & Readonly<Record<FollowedName, Followed>>;

/** An operation that replies with one object. */
export interface Answered {
  readonly kind: 'answered';
  readonly method: 'GET' | 'POST' | 'PUT';
  /** The path behind `/v1/`. */
  readonly path: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodType;
  /** What may run at the same time; undefined: anything. `makes way` and `pauses` interrupt others (precedence.ts). */
  readonly beside?: 'nothing' | 'makes way' | 'pauses';
  /** Members may use it, too, who may only look (access.ts). `listed`: only for the configured properties. */
  readonly members?: 'all' | 'listed';
}

/** A long operation, begun by a POST. Only one runs at a time (operation-runner.ts). */
export interface Followed {
  readonly kind: 'followed';
  readonly path: string;
  /** What people call this operation while it runs. */
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

/** The table as an interface: of the agent in this process (daemon/agent.ts) and of its client (control-client.ts). */
export type AgentOperations = {
  readonly [Name in OperationName]: Table[Name] extends { readonly kind: 'followed' }
    ? (input: InputOf<Name>, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>
    : (input: InputOf<Name>, signal: AbortSignal) => Promise<OutputOf<Name>>;
};

/** `reboot: false`: stop before the reboot. `force`: quarantine, attempts, windows and hooks do not count. */
export type InstallFlags = Pick<InputOf<'install'>, 'reboot' | 'force' | 'allowDowngrade'>;
