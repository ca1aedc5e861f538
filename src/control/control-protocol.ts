import * as z from 'zod';

import { nestedWithin } from '../system/json-value.ts';
import { telemetryReply } from './telemetry-protocol.ts';

/**
 * What crosses the control socket, version 1: HTTP/1.1, JSON bodies. `status`, `check`, `doctor`, `activate`, `reboot`,
 * properties and datapoints answer with one object. The operations (`update`, `install`, `commit`, `rollback`, `cancel`) answer
 * with lines of JSON (NDJSON): progress, and last the result or the error. Every refusal is `{ "error": ReportedError }`.
 */

const jsonValue = z
  .unknown()
  .refine((value) => value !== undefined, { error: 'is missing' })
  .refine((value) => nestedWithin(value), { error: 'is nested too deep' });
const identifier = z.string().min(1).max(256);

// ------------------------------------------------------------------------------------------------------- requests

export const noBody = z.strictObject({});
export const installBody = z.strictObject({
  reboot: z.boolean().default(true),
  force: z.boolean().default(false),
});
export const installFileBody = installBody.extend({ path: z.string().startsWith('/').max(4096) });
const filePath = z.string().startsWith('/').max(4096);
export const boardFileBody = z.strictObject({ path: filePath });
export const flashBody = z.strictObject({ board: identifier, path: filePath });
export const restoreBody = z.strictObject({ board: identifier });
export const valueBody = z.strictObject({ value: jsonValue });
export const datapointBody = valueBody.extend({ at: z.iso.datetime().optional() });
/** Of several events, all or none. */
const localPoint = datapointBody.extend({ event: identifier, class: z.enum(['urgent', 'normal', 'bulk']).optional() });
export const datapointsBody = z.strictObject({ points: z.array(localPoint).max(10_000) });
export const forgetBody = z.strictObject({ version: identifier });
export const pathParameter = identifier;

// -------------------------------------------------------------------------------------------------------- replies

/** JSON leaves out what is undefined: a member that may be absent. */
function absent<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}

const slotName = z.enum(['A', 'B']);

const version = z.object({ id: z.string(), name: z.string(), description: z.string().optional() });

const installed = z.object({
  versionId: absent(z.string()),
  versionName: z.string(),
  digest: z.string(),
  slot: absent(slotName),
  signedBy: absent(z.string()),
  at: z.string(),
  factory: z.boolean().optional(),
});

const outcomeReport = z.object({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  repeats: z.number().optional(),
  dropped: z.number().optional(),
});

const board = z.object({
  name: z.string(),
  port: z.string(),
  protocol: z.string(),
  connected: z.boolean(),
  chip: absent(z.string()),
  imageDigest: absent(z.string()),
  imageName: absent(z.string()),
  flashedAt: absent(z.string()),
  attempts: absent(z.number()),
  roundTripMs: absent(z.number()),
  writing: z.object({ name: z.string(), since: absent(z.string()), restorable: z.boolean() }).optional(),
});

const operationName = z.enum(['update', 'install', 'commit', 'rollback', 'cancel', 'flash', 'restore']);
const progressPhase = z.enum([
  'checking',
  'staging',
  'verifying',
  'staged',
  'rebooting',
  'health',
  'flashing',
  'committing',
  'rolling-back',
  'switching',
  'done',
]);

const activity = z.object({
  who: z.string(),
  operation: operationName.optional(),
  board: z.string().optional(),
  phase: progressPhase.optional(),
  doneBytes: z.number().optional(),
  totalBytes: z.number().optional(),
});

const broker = z.object({
  url: z.string(),
  state: z.enum(['unused', 'connecting', 'connected', 'waiting']),
  problem: absent(z.object({ code: z.string(), message: z.string() })),
  ignored: z.record(z.string(), z.number()),
});

export const statusReply = z.object({
  agentVersion: z.string(),
  daemon: z.boolean(),
  serialNumber: absent(z.string()),
  thingId: absent(z.string()),
  installed: absent(installed),
  previous: absent(installed),
  phase: z.string(),
  activity: activity.optional(),
  arrived: z.object({ bytes: z.number(), totalBytes: z.number() }).optional(),
  slots: absent(z.record(z.string(), z.string())),
  booted: absent(slotName),
  lastOutcome: absent(outcomeReport),
  quarantine: z.array(
    z.object({
      version: z.string(),
      versionId: absent(z.string()),
      digest: z.string(),
      code: z.string(),
      reason: z.string(),
      at: z.string(),
      until: absent(z.string()),
    }),
  ),
  idleReason: z.string(),
  nextLookAt: absent(z.string()),
  pendingSwitch: absent(z.string()),
  pendingReports: z.number(),
  droppedReports: z.number(),
  boards: z.array(board),
  warnings: z.array(z.string()),
  telemetry: absent(telemetryReply),
  service: z.object({
    url: z.string(),
    lastError: absent(z.string()),
    lastContactAt: absent(z.string()),
    broker: broker.optional(),
  }),
});

export const boardsReply = z.object({ boards: z.array(board) });
export const probeReply = z.object({
  name: z.string(),
  chip: z.string(),
  can: z.array(z.string()),
  roundTripMs: absent(z.number()),
});
export const planReply = z.object({
  name: z.string(),
  chip: z.string(),
  unitsTotal: z.number(),
  unitsDifferent: absent(z.number()),
});

export const checkReply = z.object({
  installed: absent(installed),
  offered: absent(version),
  plan: z.enum(['install', 'up-to-date', 'held-back', 'nothing-offered']),
  reason: z.string(),
});

export const doctorReply = z.object({
  findings: z.array(z.object({ name: z.string(), ok: z.boolean(), detail: z.string(), advice: z.string().optional() })),
});

export const forgetReply = z.object({ versions: z.array(z.string()) });
export const activateReply = z.object({ serialNumber: z.string(), thingId: z.string() });
export const valueReply = z.object({ value: z.unknown() });
export const emptyReply = z.object({});

const reportedError = z.object({
  code: z.string(),
  message: z.string(),
  exit: z.enum(['usage', 'unreachable', 'failed', 'disk', 'tryAgain', 'protocol', 'refused', 'configuration']),
  advice: z.string().optional(),
});

export const errorReply = z.object({ error: reportedError });

const named = { version: z.string() };
const outcome = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('up-to-date'), ...named }),
  z.object({ kind: z.literal('held-back'), ...named, code: z.string(), reason: z.string() }),
  z.object({ kind: z.literal('installed'), ...named }),
  z.object({ kind: z.literal('reboot-required'), ...named, slot: slotName }),
  z.object({
    kind: z.literal('rebooting'),
    ...named,
    slot: slotName,
    reason: z.string().optional(),
    goesBack: z.boolean().optional(),
  }),
  z.object({ kind: z.literal('rolled-back'), ...named, reason: z.string() }),
  z.object({ kind: z.literal('cancelled'), ...named }),
  z.object({ kind: z.literal('nothing-to-cancel'), ...named }),
  z.object({ kind: z.literal('flashed'), ...named, board: z.string() }),
]);

const progress = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('phase'),
    phase: progressPhase,
    detail: z.string().optional(),
  }),
  z.object({ kind: z.literal('transfer'), receivedBytes: z.number(), totalBytes: absent(z.number()) }),
  z.object({
    kind: z.literal('board'),
    board: z.string(),
    step: z.string(),
    doneBytes: z.number(),
    totalBytes: z.number(),
  }),
  z.object({
    kind: z.literal('following'),
    operation: operationName,
  }),
]);

/** One line of an operation's stream. `alive` comes when nothing else did for a while. */
export const streamLine = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('alive') }),
  z.object({ kind: z.literal('event'), event: progress }),
  z.object({ kind: z.literal('result'), outcome }),
  z.object({ kind: z.literal('error'), error: reportedError }),
]);

export type StreamLine = z.infer<typeof streamLine>;
