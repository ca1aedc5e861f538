import * as z from 'zod';

import { boardReport } from './api/board-report.ts';
import { gatewayStates, idleCodes, problems } from './gateway-state.ts';
import { followedName } from './long-operations.ts';
import { maybeUndefined } from './schema-parts.ts';
import type { Infer } from './schema-parts.ts';
import { telemetryReply } from './telemetry-protocol.ts';

/** The schemas of the agent's replies; the types follow from them. JSON omits members that are undefined. */

export const slotName = z.enum(['A', 'B']);

const version = z.object({ id: z.string(), name: z.string(), description: z.string().optional() });

const installedReport = z.object({
  versionId: maybeUndefined(z.string()),
  versionName: z.string(),
  digest: z.string(),
  slot: maybeUndefined(slotName),
  signedBy: maybeUndefined(z.string()).describe('Omitted if it was installed unsigned.'),
  keyName: z.string().optional().describe('The file name of that key; omitted if its file is gone.'),
  at: z.string(),
  factory: z
    .boolean()
    .optional()
    .describe('True for the factory image, which states its own version: no agent installed or verified it.'),
});
export type InstalledReport = Infer<typeof installedReport>;

/** The result of one attempt, which is also reported to the service. */
const outcomeReport = z.object({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  code: z.string().describe("An error's stable code, or `ok`."),
  reason: z.string(),
  at: z.string(),
  count: z
    .number()
    .optional()
    .describe('The number of earlier attempts with the same result, which are not reported separately.'),
  dropped: z.number().optional().describe('The number of earlier results that were dropped.'),
  by: z.enum(['service', 'file', 'rollback']).optional().describe('`file`: an operator tried to install a file.'),
  trustList: z.number().optional().describe('The number of the trust list that took effect.'),
  fetchedBytes: z.number().optional().describe('Bytes downloaded from the service, as far as the history knows.'),
});
export type OutcomeReport = Infer<typeof outcomeReport>;

const quarantineReport = z.object({
  version: z.string(),
  versionId: maybeUndefined(z.string()).describe('Omitted if it was installed from a file.'),
  digest: z.string(),
  isOffered: z.boolean().optional().describe('True if the service offers this release, under any name.'),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  until: maybeUndefined(z.string()).describe('Omitted if only `agent unblock` ends it, or the clock was not set.'),
});

/** A package of this system that is a target. */
const packageReport = z.object({
  name: z.string().describe('The name of the target.'),
  package: z.string().describe('The name of the package in dpkg.'),
  version: maybeUndefined(z.string()).describe(
    'The installed version according to dpkg; omitted if the package is not completely installed.',
  ),
  installedByUpdate: z
    .string()
    .optional()
    .describe(
      'The version that an update or a rollback installed. If `version` differs, that version was installed manually. Omitted if no update has installed the package, or one is running.',
    ),
});
export type PackageReport = Infer<typeof packageReport>;

export const progressPhase = z.enum([
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
export type ProgressPhase = Infer<typeof progressPhase>;

/** The running operation and its process. */
const activity = z.object({
  process: z.string().describe('`the daemon`, or another process and its command line.'),
  operation: followedName.optional().describe('Omitted for another process.'),
  board: z.string().optional(),
  phase: progressPhase.optional(),
  doneBytes: z.number().optional(),
  totalBytes: z.number().optional(),
  leftMs: z.number().optional().describe('The estimated remaining time of the transfer.'),
});
export type Activity = Infer<typeof activity>;

/** The connection to the broker, and the messages that were not replies to our requests. */
const brokerReport = z.object({
  url: z.string(),
  state: z.enum(['unused', 'connecting', 'connected', 'waiting']),
  problem: maybeUndefined(z.object({ code: z.string(), message: z.string() })).describe(
    'The reason for the missing connection.',
  ),
  ignored: z.record(z.string(), z.number()).describe('The number of ignored messages since the start, by kind.'),
});
export type BrokerReport = Infer<typeof brokerReport>;

/** An operator's hold. */
export const holdReport = z.object({
  since: z.string().describe('ISO 8601'),
  until: z.string().optional().describe('Omitted if the hold lasts until an operator lifts it.'),
  reason: z.string().optional(),
});
export type HoldReport = Infer<typeof holdReport>;

/** Bytes with HTTP headers and TLS, without TCP and IP. */
const carried = z.object({ sentBytes: z.number(), receivedBytes: z.number() });

/** The version that runs, committed or not. */
const runningReport = z.object({
  version: maybeUndefined(z.string()).describe('Omitted if it is unknown.'),
  slot: maybeUndefined(slotName),
  isOnTrial: z.boolean(),
  isFactory: z.boolean().describe('True for the factory image.'),
});

const slotState = z.object({
  bootable: z.boolean(),
  bootsNext: z.boolean(),
  version: z.string().optional().describe('The version in this slot; omitted if it is unknown.'),
  isPartial: z.boolean().optional().describe('True while an update is written to it, or if that was interrupted.'),
  isFactory: z.boolean().optional().describe('True if it contains the factory image.'),
});

/** The operations that a status suggests. */
export const suggestedOperation = z.enum(['commit', 'reboot', 'resume', 'unblock', 'update']);

const nextStep = z.object({
  isNeeded: z.boolean().describe('False if the exit code of `agent status --exit-code` is 0.'),
  text: z.string().describe('What you need to do, or can do, with the command.'),
  operation: suggestedOperation.optional().describe('The operation that does it.'),
  version: z.string().optional().describe('The version to unblock, or its digest if others have the same name.'),
});
export type NextStep = Infer<typeof nextStep>;

export const statusReport = z.object({
  running: runningReport.optional().describe('The running version; omitted by an older daemon.'),
  state: z
    .enum(gatewayStates)
    .optional()
    .describe('The state of the gateway, for programs; omitted by an older daemon.'),
  problems: z.array(z.enum(problems)).optional().describe('The problems, the worst first.'),
  toDo: nextStep.optional().describe('The next step; omitted by an older daemon.'),
  agentVersion: z.string(),
  daemon: z.boolean(),
  label: z.string().optional().describe('The name of the gateway: `[device] label`.'),
  serialNumber: maybeUndefined(z.string()),
  thingId: maybeUndefined(z.string()),
  installed: maybeUndefined(installedReport),
  previous: maybeUndefined(installedReport).describe('The target of a rollback.'),
  trustList: z
    .object({
      number: z.number(),
      versionId: maybeUndefined(z.string()).describe(
        'The version ID of the last trust list that the service offered; omitted if there is none.',
      ),
    })
    .optional()
    .describe('The trust list in effect.'),
  phase: z.string().describe('The phase in the journal of updates.'),
  activity: activity
    .optional()
    .describe('Omitted if no operation is running: a phase other than `idle` was interrupted, or waits.'),
  throttle: z
    .object({ bytesPerSecond: z.number(), until: z.string().optional() })
    .optional()
    .describe('The rate limit of `[service] max_rate` in effect, and its end (ISO 8601).'),
  traffic: z
    .object({
      measuredMs: z.number().optional().describe('The time since the daemon started; omitted by an older daemon.'),
      lastHour: carried,
      lastDay: carried,
      sinceStart: carried,
    })
    .optional()
    .describe(
      'Traffic to and from the service since the daemon started. The last hour and the last day reach back at most to that start. Omitted without a daemon, and by an older one.',
    ),
  written: z
    .object({ bytes: z.number(), measuredMs: z.number() })
    .optional()
    .describe(
      'The bytes that the agent itself wrote to storage since the daemon started, as the kernel counts them: state, queue, boot environment, boards, images. Omitted without a daemon, and while nothing was counted.',
    ),
  downloaded: z
    .object({ bytes: z.number(), totalBytes: z.number() })
    .optional()
    .describe('The part of an interrupted download that need not be sent again.'),
  slots: maybeUndefined(z.record(z.string(), z.string())),
  slotStates: z.record(z.string(), slotState).optional().describe('`slots`, for programs.'),
  booted: maybeUndefined(slotName),
  lastOutcome: maybeUndefined(outcomeReport),
  quarantine: z.array(quarantineReport).describe('Releases that failed their trial and are blocked.'),
  idleReason: z.string().describe('The reason for not installing anything now.'),
  rebootDeferral: z
    .object({ reason: z.string(), until: z.string().optional() })
    .optional()
    .describe(
      'The staged update waits for `[update] reboot_window`, until this time (ISO 8601), or until the clock is synchronized.',
    ),
  hookDeferral: z
    .object({ reason: z.string(), until: z.string() })
    .optional()
    .describe('A consent hook defers the update; it is called again at this time (ISO 8601).'),
  hold: holdReport.optional().describe('Omitted if updates are not on hold.'),
  idleCode: z.enum(idleCodes).optional().describe('The reason for not installing anything now, for programs.'),
  nextCheckAt: maybeUndefined(z.string()).describe('ISO 8601; omitted without a schedule.'),
  checks: z
    .object({
      lastSuccessAt: z.string().optional().describe('The last successful check.'),
      consecutiveFailures: z.number().describe('Failed checks since then.'),
      retryAt: z.string().optional().describe('The next attempt to finish an interrupted update or write (ISO 8601).'),
    })
    .optional()
    .describe('The update checks of the daemon since its start; omitted without a daemon, and by an older one.'),
  pendingSwitch: maybeUndefined(z.string()),
  pendingReports: z.number(),
  droppedReports: z.number().describe('Results of attempts that were dropped; the service receives only their number.'),
  boards: z.array(boardReport),
  packages: z.array(packageReport).optional().describe('Omitted if no package is a target, and by an older daemon.'),
  warnings: z.array(z.string()).describe('Settings and findings that weaken a guarantee, such as `allow_unsigned`.'),
  telemetry: maybeUndefined(telemetryReply).describe('Omitted without a daemon.'),
  service: z.object({
    url: z.string(),
    lastError: maybeUndefined(z.string()),
    lastContactAt: maybeUndefined(z.string()).describe('The last successful call, ISO 8601.'),
    lastRefusalAt: z.string().optional().describe('The last reply with an error since then, ISO 8601.'),
    broker: brokerReport.optional().describe('Omitted if no broker is used.'),
  }),
});
export type StatusReport = Infer<typeof statusReport>;

export const checkReport = z.object({
  installed: maybeUndefined(installedReport),
  offered: maybeUndefined(version),
  plan: z
    .enum(['install', 'up-to-date', 'deferred', 'nothing-offered'])
    .describe('The result of an update at this time.'),
  reason: z.string(),
  code: z.string().optional().describe('The rule that defers the version, see `agent explain`.'),
  trustList: z.boolean().optional().describe('True if the offered release is a trust list, which no rule defers.'),
  lastAttempt: outcomeReport.optional().describe('The last attempt, if it was for this version and failed.'),
});
export type CheckReport = Infer<typeof checkReport>;

export const doctorFinding = z.object({
  name: z.string().describe('Two or three words, e.g. `boot environment`.'),
  ok: z.boolean().describe('False: an update may fail.'),
  isWarning: z.boolean().optional().describe('True: an update works, but the gateway may not recover from a failure.'),
  detail: z.string().describe('The finding in one line.'),
  advice: z.string().optional().describe('The remedy in one line.'),
});
export type DoctorFinding = Infer<typeof doctorFinding>;
