import * as z from 'zod';

import type { FileContent } from '../system/files/opened-file.ts';
import { boardPlan, boardProbe, boardReport } from './api/board-report.ts';
import { MAX_HOLD_MS } from './api/hold-limit.ts';
import {
  allowDowngrade,
  datapoint,
  done,
  filePath,
  identifier,
  jsonValue,
  emptyReply,
  acceptedBy,
} from './api/operation-parts.ts';
import type { OnEvent, OperationOutcome } from './events.ts';
import { fileReport } from './file-report.ts';
import { historyReport } from './history.ts';
import { longOperations } from './long-operations.ts';
import type { LongOperation, LongOperationName } from './long-operations.ts';
import { holdReport, checkReport, doctorFinding, statusReport } from './reports.ts';
import { plainText } from './schema-parts.ts';
import type { Infer } from './schema-parts.ts';
import { securityReport } from './security/security-events.ts';
import { flushReply, sensorsReply, telemetryReply, tryInput, tryReply } from './telemetry-protocol.ts';

/**
 * All operations of the agent. The control socket's server and client and the interface of the agent in this process
 * follow from this table.
 *
 * On the socket it is HTTP/1.1 with JSON bodies, version 1. A `:name` in the path is the input's member of this name;
 * the other members are the body. If an operation takes a file, its content is the body, and the other members are in
 * the query. An operation with an `output` replies with one object, a long operation with lines of JSON (NDJSON): its
 * progress, then the result or the error (events.ts). An error reply is `{ "error": ReportedError }`.
 */
export const operationTable = {
  status: {
    summary: 'Returns what is running, the current activity and the problems.',
    method: 'GET',
    path: 'status',
    input: emptyReply(),
    output: statusReport,
    members: 'all',
  },
  check: {
    summary: 'Queries the service and returns what an update would do; installs nothing.',
    method: 'GET',
    path: 'check',
    input: emptyReply(),
    output: checkReport,
  },
  doctor: {
    summary:
      'Diagnoses everything that updates and measurements need; changes nothing. A failed check is a finding, not an error.',
    method: 'GET',
    path: 'doctor',
    input: emptyReply(),
    output: z.object({ findings: z.array(doctorFinding) }),
  },
  history: {
    summary: 'Returns the last update attempts, also from before an update.',
    method: 'GET',
    path: 'history',
    input: emptyReply(),
    output: historyReport,
    members: 'all',
  },
  inspect: {
    summary:
      'Inspects a file: contents, device types, signing key, and whether it would be installed; changes nothing.',
    method: 'POST',
    path: 'inspect',
    input: z.strictObject({ path: filePath(), allowDowngrade: allowDowngrade() }),
    takesFile: true,
    output: fileReport,
  },
  securityLog: {
    summary: 'Returns the last security events, also from before an update.',
    method: 'GET',
    path: 'security',
    input: emptyReply(),
    output: securityReport,
  },
  activate: {
    summary: 'Activates the gateway at the service; a new API key replaces the previous one.',
    method: 'POST',
    path: 'activate',
    input: emptyReply(),
    output: z.object({ serialNumber: z.string(), thingId: z.string() }),
  },
  reboot: {
    summary: 'Reboots the gateway, into the staged slot if there is one.',
    method: 'POST',
    path: 'reboot',
    input: emptyReply(),
    output: done(),
    whileBusy: 'preempt',
  },
  unblock: {
    summary: 'Allows a failed version to be installed again. Returns the names of the unblocked versions.',
    method: 'POST',
    path: 'unblock',
    input: z.strictObject({ version: identifier() }),
    output: z.object({ versions: z.array(z.string()) }),
  },
  hold: {
    summary:
      'Pauses updates for the given duration, or until resume. A running check or download pauses and resumes afterwards.',
    method: 'POST',
    path: 'hold',
    input: z.strictObject({
      durationMs: z.int().positive().max(MAX_HOLD_MS).optional(),
      reason: plainText(200).optional(),
    }),
    output: holdReport,
    whileBusy: 'pause',
  },
  resume: {
    summary: 'Ends a hold. Returns whether updates were on hold.',
    method: 'POST',
    path: 'resume',
    input: emptyReply(),
    output: z.object({ wasHeld: z.boolean() }),
  },
  property: {
    summary: 'Reads the value of a property from the service.',
    method: 'GET',
    path: 'properties/:id',
    input: z.strictObject({ id: identifier() }),
    output: z.object({ value: z.unknown() }),
    members: 'listed',
  },
  setProperty: {
    summary: 'Sets a property; it is on disk or at the service when this returns.',
    method: 'PUT',
    path: 'properties/:id',
    input: z.strictObject({ id: identifier(), value: jsonValue() }),
    output: acceptedBy(),
    members: 'listed',
  },
  sendDatapoint: {
    summary: 'Sends a datapoint; it is on disk or at the service when this returns.',
    method: 'POST',
    path: 'events/:event/datapoints',
    input: datapoint(),
    output: acceptedBy(),
    members: 'all',
  },
  sendDatapoints: {
    summary: 'Sends datapoints of several events, all or none; they are on disk or at the service when this returns.',
    method: 'POST',
    path: 'datapoints',
    input: z.strictObject({
      points: z.array(datapoint().extend({ class: z.enum(['urgent', 'normal', 'bulk']).optional() })).max(10_000),
    }),
    output: acceptedBy(),
    members: 'all',
  },
  /** Throws `queue-owned-by-daemon` if no daemon runs. */
  queue: {
    summary: 'Returns sensors, queued data and the state of delivery.',
    method: 'GET',
    path: 'queue',
    input: emptyReply(),
    output: telemetryReply,
    members: 'all',
  },
  sensors: {
    summary: 'Returns the configured sources of datapoints: last readings, rates and errors.',
    method: 'GET',
    path: 'sensors',
    input: emptyReply(),
    output: sensorsReply,
    members: 'all',
  },
  trySensor: {
    summary: 'Reads a polled source once now; stores and sends nothing.',
    method: 'POST',
    path: 'sensors/try',
    input: tryInput,
    output: tryReply,
  },
  syncQueue: {
    summary: 'Writes queued datapoints from memory to disk.',
    method: 'POST',
    path: 'queue/sync',
    input: emptyReply(),
    output: flushReply,
  },
  boards: {
    summary: 'Returns the configured boards.',
    method: 'GET',
    path: 'boards',
    input: emptyReply(),
    output: z.object({ boards: z.array(boardReport) }),
    members: 'all',
  },
  probeBoard: {
    summary: 'Identifies a board by its bootloader; restarts its application afterwards.',
    method: 'POST',
    path: 'boards/:board/probe',
    input: z.strictObject({ board: identifier() }),
    output: boardProbe,
    whileBusy: 'reject',
  },
  planBoard: {
    summary: 'Returns how much flashing this file would change; changes nothing.',
    method: 'POST',
    path: 'boards/:board/plan',
    input: z.strictObject({ board: identifier(), path: filePath() }),
    takesFile: true,
    output: boardPlan,
    whileBusy: 'reject',
  },
  resetBoard: {
    summary: 'Restarts the application of a board.',
    method: 'POST',
    path: 'boards/:board/reset',
    input: z.strictObject({ board: identifier() }),
    output: done(),
    whileBusy: 'reject',
  },
  ...longOperations,
} as const satisfies Readonly<Record<string, Answered | LongOperation>>;

/** An operation that replies with one object. */
export interface Answered {
  /** The effect, for developers of client programs. */
  readonly summary: string;
  readonly method: 'GET' | 'POST' | 'PUT';
  /** The path after `/v1/`. */
  readonly path: string;
  readonly input: z.ZodObject;
  /** As of a long operation. */
  readonly takesFile?: true;
  readonly output: z.ZodType;
  /**
   * The effect while a long operation runs: the request is rejected, or the operation is preempted or paused
   * (preemption.ts). If omitted, both run at the same time.
   */
  readonly whileBusy?: 'reject' | 'preempt' | 'pause';
  /** Viewers may use it, too (access.ts). `listed`: only for the configured properties. */
  readonly members?: 'all' | 'listed';
}

type Table = typeof operationTable;
export type OperationName = keyof Table;
export type InputOf<Name extends OperationName> = Infer<Table[Name]['input']> &
  (Table[Name] extends { readonly takesFile: true } ? { readonly file: FileContent } : unknown);
export type OutputOf<Name extends OperationName> = Table[Name] extends {
  readonly output: infer Output extends z.ZodType;
}
  ? Infer<Output>
  : OperationOutcome;

/** The table as an interface: of the agent in this process (daemon/agent.ts) and of its client (control-client.ts). */
export type AgentOperations = {
  readonly [Name in OperationName]: Name extends LongOperationName
    ? (input: InputOf<Name>, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>
    : (input: InputOf<Name>, signal: AbortSignal) => Promise<OutputOf<Name>>;
};

/** `reboot: false` stops before the reboot. `force` ignores quarantine, attempts, windows and hooks. */
export type InstallFlags = Pick<InputOf<'install'>, 'reboot' | 'force' | 'allowDowngrade'>;
