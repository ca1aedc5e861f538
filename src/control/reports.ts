import * as z from 'zod';

import { gatewayStates, idleCodes, problems } from './gateway-state.ts';
import { followedName } from './long-operations.ts';
import { maybeUndefined } from './schema-parts.ts';
import type { Infer } from './schema-parts.ts';
import { telemetryReply } from './telemetry-protocol.ts';

/** The schemas of what the agent answers; the types follow from them. JSON leaves out members that are undefined. */

export const slotName = z.enum(['A', 'B']);

const version = z.object({ id: z.string(), name: z.string(), description: z.string().optional() });

const installedReport = z.object({
  versionId: maybeUndefined(z.string()),
  versionName: z.string(),
  digest: z.string(),
  slot: maybeUndefined(slotName),
  signedBy: maybeUndefined(z.string()).describe('Undefined: it was installed unsigned.'),
  at: z.string(),
  factory: z
    .boolean()
    .optional()
    .describe('It came with the image, which names itself: no agent installed it, and nothing of it was verified.'),
});
export type InstalledReport = Infer<typeof installedReport>;

/** The end of one attempt, which is also reported to the service. */
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
    .describe('So many earlier attempts ended the same way, and are not reported by themselves.'),
  dropped: z.number().optional().describe('So many earlier ends were dropped.'),
  by: z.enum(['service', 'file', 'rollback']).optional().describe('`file`: a person brought what was not installed.'),
  trustList: z
    .number()
    .optional()
    .describe('It was the list of keys and revocations of this number, which took effect.'),
  fetchedBytes: z.number().optional().describe('What the service sent for it, as far as the history knows.'),
});
export type OutcomeReport = Infer<typeof outcomeReport>;

const quarantineReport = z.object({
  version: z.string(),
  versionId: maybeUndefined(z.string()).describe('Undefined: it was installed from a file.'),
  digest: z.string(),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  until: maybeUndefined(z.string()).describe('Undefined: the clock was not set.'),
});

const boardWriting = z.object({
  name: z.string(),
  since: maybeUndefined(z.string()).describe('ISO 8601; undefined: the mark cannot be read.'),
  restorable: z.boolean().describe('What stood on the board before is kept.'),
});
export type BoardWriting = Infer<typeof boardWriting>;

/** How it is known what a board runs; `knownBy` of the module of boards says what each means. */
export const boardKnownBy = z.enum(['active-slot', 'first-slot', 'on-trial', 'otadata', 'read-back', 'sent']);

/** A board of the configuration, and what this agent flashed last. */
export const boardReport = z.object({
  name: z.string(),
  port: z.string(),
  protocol: z.string(),
  connected: z.boolean().describe('The port is there; whether a board answers, only a probe can tell.'),
  chip: maybeUndefined(z.string()),
  imageDigest: maybeUndefined(z.string()),
  imageName: maybeUndefined(z.string()),
  flashedAt: maybeUndefined(z.string()),
  known: boardKnownBy
    .optional()
    .describe(
      'How it is known that the board runs the image; "sent": it is not. Undefined: an older agent flashed it.',
    ),
  boots: z.string().optional().describe('The slot that starts, and its version, where the board has several.'),
  attempts: maybeUndefined(z.number()),
  roundTripMs: maybeUndefined(z.number()),
  writing: boardWriting
    .optional()
    .describe('A write that began and has not ended: unless it is under way, the board may run nothing.'),
});
export type BoardReport = Infer<typeof boardReport>;

/** A package of this system that is a target. */
const packageReport = z.object({
  name: z.string().describe('Of the target.'),
  package: z.string().describe('What dpkg calls it.'),
  version: maybeUndefined(z.string()).describe(
    'What is installed, by the word of dpkg; undefined: nothing is, as a whole.',
  ),
  installedByUpdate: z
    .string()
    .optional()
    .describe(
      'What an update, or a way back, left there. If `version` is another one, a person has installed that. Undefined: no update has installed it, or one is at it.',
    ),
});
export type PackageReport = Infer<typeof packageReport>;

export const boardProbe = z.object({
  name: z.string(),
  chip: z.string(),
  capabilities: z.array(z.string()).describe('What its bootloader can do.'),
  boots: z.string().optional().describe('The slot that starts, and its version, where the board has several.'),
  roundTripMs: maybeUndefined(z.number()),
});
export type BoardProbe = Infer<typeof boardProbe>;

export const boardPlan = z.object({
  name: z.string(),
  chip: z.string(),
  unitsTotal: z.number(),
  unitsDifferent: maybeUndefined(z.number()).describe('Undefined where the protocol cannot find out.'),
});
export type BoardPlan = Infer<typeof boardPlan>;

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

/** The operation that runs at the moment, and the process that runs it. */
const activity = z.object({
  process: z.string().describe('`the daemon`, or another process and what was typed there.'),
  operation: followedName.optional().describe('Undefined: of another process only its name is known.'),
  board: z.string().optional(),
  phase: progressPhase.optional(),
  doneBytes: z.number().optional(),
  totalBytes: z.number().optional(),
});
export type Activity = Infer<typeof activity>;

/** The connection to the broker of the messaging form, and the messages from it that answered none of our requests. */
const brokerReport = z.object({
  url: z.string(),
  state: z.enum(['unused', 'connecting', 'connected', 'waiting']),
  problem: maybeUndefined(z.object({ code: z.string(), message: z.string() })).describe('Why there is no connection.'),
  ignored: z
    .record(z.string(), z.number())
    .describe('How many messages were ignored since the start, by what they were.'),
});
export type BrokerReport = Infer<typeof brokerReport>;

/** A hold by a person. */
export const holdReport = z.object({
  since: z.string().describe('ISO 8601'),
  until: z.string().optional().describe('Undefined: until a person lifts it.'),
  reason: z.string().optional(),
});
export type HoldReport = Infer<typeof holdReport>;

/** Bytes with HTTP headers and TLS, without TCP and IP. */
const carried = z.object({ sentBytes: z.number(), receivedBytes: z.number() });

export const statusReport = z.object({
  state: z.enum(gatewayStates).optional().describe('What a program acts upon; undefined: the daemon is older.'),
  problems: z.array(z.enum(problems)).optional().describe('What keeps it from being well, the worst first.'),
  agentVersion: z.string(),
  daemon: z.boolean(),
  serialNumber: maybeUndefined(z.string()),
  thingId: maybeUndefined(z.string()),
  installed: maybeUndefined(installedReport),
  previous: maybeUndefined(installedReport).describe('What a rollback goes back to.'),
  trustList: z
    .object({
      number: z.number(),
      versionId: maybeUndefined(z.string()).describe(
        'What the service calls the last one that it named; undefined: none.',
      ),
    })
    .optional()
    .describe('Of keys and revocations: what is in effect. It is no firmware.'),
  phase: z.string().describe('Where the journal of updates stands.'),
  activity: activity
    .optional()
    .describe('Undefined: nothing is at work; a phase other than `idle` was interrupted, or waits.'),
  throttle: z
    .object({ bytesPerSecond: z.number(), until: z.string().optional() })
    .optional()
    .describe('What slows a download down at the moment, of `[service] max_rate`; ISO 8601 until when.'),
  traffic: z
    .object({
      measuredMs: z.number().optional().describe('How long the daemon has counted; undefined: the daemon is older.'),
      lastHour: carried,
      lastDay: carried,
      sinceStart: carried,
    })
    .optional()
    .describe(
      'What the line to the service carried since the daemon began: the last hour and the last day reach back no further than that. Undefined: no daemon runs, or an older one.',
    ),
  downloaded: z
    .object({ bytes: z.number(), totalBytes: z.number() })
    .optional()
    .describe('How much of a firmware whose staging was interrupted need not be sent again.'),
  slots: maybeUndefined(z.record(z.string(), z.string())),
  slotStates: z
    .record(z.string(), z.object({ bootable: z.boolean(), bootsNext: z.boolean() }))
    .optional()
    .describe('`slots`, for programs. `next`: it boots next.'),
  booted: maybeUndefined(slotName),
  lastOutcome: maybeUndefined(outcomeReport),
  quarantine: z.array(quarantineReport).describe('What ended badly and is not tried again by itself.'),
  idleReason: z.string().describe('Why nothing is being installed now.'),
  rebootDeferral: z
    .object({ reason: z.string(), until: z.string().optional() })
    .optional()
    .describe(
      'What was staged waits for `[update] reboot_window`, until then (ISO 8601), or for a clock that tells when that is.',
    ),
  hookDeferral: z
    .object({ reason: z.string(), until: z.string() })
    .optional()
    .describe('A program of `[hooks]` wants to be asked again, at that time (ISO 8601).'),
  hold: holdReport.optional().describe('Undefined: nobody holds updates.'),
  idleCode: z.enum(idleCodes).optional().describe('Why nothing is being installed now, for programs.'),
  nextCheckAt: maybeUndefined(z.string()).describe('ISO 8601; undefined without a schedule.'),
  checks: z
    .object({
      lastSuccessAt: z.string().optional().describe('The last that ended well.'),
      consecutiveFailures: z.number().describe('Since then: in them the service, or what it offered, failed.'),
    })
    .optional()
    .describe('Of the service, by the daemon since its start; undefined: no daemon runs, or an older one.'),
  pendingSwitch: maybeUndefined(z.string()),
  pendingReports: z.number(),
  droppedReports: z.number().describe('Ends of attempts that the service will not learn, but for their number.'),
  boards: z.array(boardReport),
  packages: z.array(packageReport).optional().describe('Undefined: none is a target, or the daemon is older.'),
  warnings: z.array(z.string()).describe('`allow_unsigned` and the like: what weakens a promise, said each time.'),
  telemetry: maybeUndefined(telemetryReply).describe('Undefined: no daemon runs.'),
  service: z.object({
    url: z.string(),
    lastError: maybeUndefined(z.string()),
    lastContactAt: maybeUndefined(z.string()).describe('The last call that went well, ISO 8601.'),
    lastRefusalAt: z.string().optional().describe('The last answer with an error since then, ISO 8601.'),
    broker: brokerReport.optional().describe('Undefined: nothing is said through a broker.'),
  }),
});
export type StatusReport = Infer<typeof statusReport>;

export const checkReport = z.object({
  installed: maybeUndefined(installedReport),
  offered: maybeUndefined(version),
  plan: z
    .enum(['install', 'up-to-date', 'deferred', 'nothing-offered'])
    .describe('What an update now would do, and why.'),
  reason: z.string(),
  trustList: z
    .boolean()
    .optional()
    .describe('It is known to be a list of keys and revocations, which nothing holds back.'),
  lastAttempt: outcomeReport.optional().describe('How the last attempt ended, if it was of this version and badly.'),
});
export type CheckReport = Infer<typeof checkReport>;

export const doctorFinding = z.object({
  name: z.string().describe('Two or three words, e.g. `boot environment`.'),
  ok: z.boolean().describe('False: an update may fail.'),
  isWarning: z.boolean().optional().describe('True: an update works, but the gateway may not recover from a failure.'),
  detail: z.string().describe('One line: what was found.'),
  advice: z.string().optional().describe('One line: what to do about it.'),
});
export type DoctorFinding = Infer<typeof doctorFinding>;
