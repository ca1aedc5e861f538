import * as z from 'zod';

import { gatewayStates, idleCodes, troubles } from './gateway-state.ts';
import { telemetryReply } from './telemetry-protocol.ts';

/** What the agent answers. A schema is the type, too; JSON leaves out what is undefined. */

type ReadonlyDeep<T> = T extends object ? { readonly [Member in keyof T]: ReadonlyDeep<T[Member]> } : T;

/** What a schema lets through, for reading. */
export type Of<Schema extends z.ZodType> = ReadonlyDeep<z.output<Schema>>;

/** A member that is always there, and may be undefined. */
function absent<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}

export const slotName = z.enum(['A', 'B']);

const version = z.object({ id: z.string(), name: z.string(), description: z.string().optional() });

const installedReport = z.object({
  versionId: absent(z.string()),
  versionName: z.string(),
  digest: z.string(),
  slot: absent(slotName),
  /** Undefined: it was installed unsigned. */
  signedBy: absent(z.string()),
  at: z.string(),
  /** It came with the image, which names itself: no agent installed it, and nothing of it was verified. */
  factory: z.boolean().optional(),
});
export type InstalledReport = Of<typeof installedReport>;

/** The end of one attempt; what is reported to the service too. */
const outcomeReport = z.object({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  /** An error's stable code, or `ok`. */
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  /** So many earlier attempts ended the same way, and are not reported by themselves. */
  repeats: z.number().optional(),
  /** So many earlier ends were dropped. */
  dropped: z.number().optional(),
  /** `file`: a person brought what was not installed. */
  by: z.enum(['service', 'file', 'rollback']).optional(),
});
export type OutcomeReport = Of<typeof outcomeReport>;

const quarantineReport = z.object({
  version: z.string(),
  /** Undefined: it was installed from a file. */
  versionId: absent(z.string()),
  digest: z.string(),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  /** Undefined: the clock was not set. */
  until: absent(z.string()),
});
export type QuarantineReport = Of<typeof quarantineReport>;

const boardWriting = z.object({
  name: z.string(),
  /** ISO 8601; undefined: the mark cannot be read. */
  since: absent(z.string()),
  /** What stood on the board before is kept. */
  restorable: z.boolean(),
});
export type BoardWriting = Of<typeof boardWriting>;

/** A microcontroller of the configuration, and what was flashed last, if this agent did it. */
export const boardReport = z.object({
  name: z.string(),
  port: z.string(),
  protocol: z.string(),
  /** The port is there; whether a board answers, only a probe can tell. */
  connected: z.boolean(),
  chip: absent(z.string()),
  imageDigest: absent(z.string()),
  imageName: absent(z.string()),
  flashedAt: absent(z.string()),
  attempts: absent(z.number()),
  roundTripMs: absent(z.number()),
  /** A write that began and has not ended: unless it is under way, the board may run nothing. */
  writing: boardWriting.optional(),
});
export type BoardReport = Of<typeof boardReport>;

export const boardProbe = z.object({
  name: z.string(),
  chip: z.string(),
  /** What its bootloader can do. */
  can: z.array(z.string()),
  roundTripMs: absent(z.number()),
});
export type BoardProbe = Of<typeof boardProbe>;

export const boardPlan = z.object({
  name: z.string(),
  chip: z.string(),
  unitsTotal: z.number(),
  /** Undefined where the protocol cannot find out. */
  unitsDifferent: absent(z.number()),
});
export type BoardPlan = Of<typeof boardPlan>;

/** What takes its time, and can be followed. */
export const followedName = z.enum(['update', 'install', 'commit', 'rollback', 'cancel', 'flash', 'restore']);
export type FollowedName = Of<typeof followedName>;

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
export type ProgressPhase = Of<typeof progressPhase>;

/** What changes something at the moment, and who does that. */
const activity = z.object({
  /** `the daemon`, or another process and what was typed there. */
  who: z.string(),
  /** Undefined: of another process only its name is known. */
  operation: followedName.optional(),
  board: z.string().optional(),
  phase: progressPhase.optional(),
  doneBytes: z.number().optional(),
  totalBytes: z.number().optional(),
});
export type Activity = Of<typeof activity>;

/** The messaging form's way to the service, and what came on it that was no answer to a question of ours. */
const brokerReport = z.object({
  url: z.string(),
  state: z.enum(['unused', 'connecting', 'connected', 'waiting']),
  /** Why there is no connection. */
  problem: absent(z.object({ code: z.string(), message: z.string() })),
  /** How many messages were ignored since the start, by what they were. */
  ignored: z.record(z.string(), z.number()),
});
export type BrokerReport = Of<typeof brokerReport>;

/** A person wants nothing to be installed. */
export const standstillReport = z.object({
  /** ISO 8601 */
  since: z.string(),
  /** Undefined: until a person lifts it. */
  until: z.string().optional(),
  reason: z.string().optional(),
});
export type StandstillReport = Of<typeof standstillReport>;

export const statusReport = z.object({
  /** What a program acts upon; undefined: the daemon is older. The same in words: `troubles`, worst first. */
  state: z.enum(gatewayStates).optional(),
  troubles: z.array(z.enum(troubles)).optional(),
  agentVersion: z.string(),
  daemon: z.boolean(),
  serialNumber: absent(z.string()),
  thingId: absent(z.string()),
  installed: absent(installedReport),
  previous: absent(installedReport),
  phase: z.string(),
  /** Undefined: nothing is at work; a phase other than `idle` was interrupted, or waits. */
  activity: activity.optional(),
  /** What slows a download down at the moment, of `[service] max_rate`; ISO 8601 until when. */
  throttle: z.object({ bytesPerSecond: z.number(), until: z.string().optional() }).optional(),
  /** How much of a firmware whose staging was interrupted need not be sent again. */
  arrived: z.object({ bytes: z.number(), totalBytes: z.number() }).optional(),
  slots: absent(z.record(z.string(), z.string())),
  /** `slots`, for programs. `next`: it boots next. */
  slotStates: z.record(z.string(), z.object({ bootable: z.boolean(), next: z.boolean() })).optional(),
  booted: absent(slotName),
  lastOutcome: absent(outcomeReport),
  /** What ended badly and is not tried again by itself. */
  quarantine: z.array(quarantineReport),
  /** Why nothing is being installed now. */
  idleReason: z.string(),
  /** What was staged waits for [update] reboot_window, until then (ISO 8601), or for a clock that tells when that is. */
  rebootWait: z.object({ reason: z.string(), until: z.string().optional() }).optional(),
  /** A program of [hooks] wants to be asked again, at that time (ISO 8601). */
  hookWait: z.object({ reason: z.string(), until: z.string() }).optional(),
  /** Undefined: nobody holds updates. */
  hold: standstillReport.optional(),
  /** The same for programs. */
  idleCode: z.enum(idleCodes).optional(),
  /** ISO 8601; undefined without a schedule. */
  nextLookAt: absent(z.string()),
  /** Of the service, by the daemon since its start; undefined: no daemon runs, or an older one. */
  looks: z
    .object({
      /** The last that ended well. */
      lastAt: z.string().optional(),
      /** Since then: in them the service, or what it offered, failed. */
      failedInARow: z.number(),
    })
    .optional(),
  pendingSwitch: absent(z.string()),
  pendingReports: z.number(),
  /** Ends of attempts that the service will not learn, but for their number. */
  droppedReports: z.number(),
  boards: z.array(boardReport),
  /** `allow_unsigned` and the like: what weakens a promise, said each time. */
  warnings: z.array(z.string()),
  /** Undefined: no daemon runs. */
  telemetry: absent(telemetryReply),
  service: z.object({
    url: z.string(),
    lastError: absent(z.string()),
    lastContactAt: absent(z.string()),
    /** Undefined: nothing is said through a broker. */
    broker: brokerReport.optional(),
  }),
});
export type StatusReport = Of<typeof statusReport>;

export const checkReport = z.object({
  installed: absent(installedReport),
  offered: absent(version),
  /** What an update now would do, and why. */
  plan: z.enum(['install', 'up-to-date', 'held-back', 'nothing-offered']),
  reason: z.string(),
});
export type CheckReport = Of<typeof checkReport>;

export const doctorFinding = z.object({
  /** Two or three words, e.g. `boot environment`. */
  name: z.string(),
  ok: z.boolean(),
  /** One line: what was found. */
  detail: z.string(),
  /** One line: what to do about it. */
  advice: z.string().optional(),
});
export type DoctorFinding = Of<typeof doctorFinding>;
