import * as z from 'zod';

// The format of the journal. Times: ISO 8601.

/** A record that keeps members of a newer agent, though their meaning is unknown. */
function open<S extends z.ZodRawShape>(shape: S): z.ZodType<z.infer<z.ZodObject<S>>> {
  return z.looseObject(shape);
}

const slotName = z.enum(['A', 'B']);

const requester = z.enum(['service', 'file', 'rollback']);

const versionRef = z.object({
  /** Omitted for a local file: the service has no name for it. */
  id: z.string().optional(),
  name: z.string(),
});

/** The cost of an attempt so far, across restarts, without anything after the last durable write. */
export const figures = z.object({
  /** Bytes of the service's text. */
  fetchedBytes: z.number().optional(),
  writtenBytes: z.number().optional(),
  /** Bytes that were already there, and were not written again. */
  reusedBytes: z.number().optional(),
  /** Bytes that deltas took from the running slot instead of fetching them. */
  deltaBaseBytes: z.number().optional(),
});

export const attempt = z.object({
  /** Unique; names the attempt in reports. */
  id: z.string(),
  version: versionRef,
  by: requester,
  startedAt: z.string(),
  /** With a rollback: partitions that could not be verified before they were booted again, and why. */
  unverified: z.array(z.string()).optional(),
  /** An operator forced this attempt, so nothing defers it. */
  forced: z.boolean().optional(),
  /** An operator wants to reboot manually. */
  rebootByHand: z.boolean().optional(),
  /** An operator requested it. */
  manual: z.boolean().optional(),
  figures: figures.optional(),
  /** The reason why the release is below the minimum security version, if root permitted that. */
  downgrade: z.string().optional(),
});

const digestedPart = z.object({ sizeBytes: z.number(), digest: z.string() });

/** A place in the wire text where a transfer may continue, and how to recognize the same text. */
const wirePosition = z.object({
  offset: z.number(),
  /** A strong validator (ETag) of the text. Without one, a transfer cannot continue after a restart. */
  validator: z.string(),
  /** The length of the whole text in bytes. */
  totalBytes: z.number(),
});

/**
 * Guarantee `resume`: a place in the content of a payload's file. It is not trusted: if something in it is wrong, the
 * transfer starts over.
 */
const artifactPlace = z.object({
  /** The part before the payloads, as it was signed. It is verified each time it is read. */
  head: z.string(),
  /** NNNN of `data/NNNN.tar`. */
  payload: z.number(),
  /** The size of that member, and how much of it is still to come. */
  member: z.object({ sizeBytes: z.number(), leftBytes: z.number() }),
  file: z.object({ name: z.string(), sizeBytes: z.number() }),
  /** For a delta: the consumed bytes of the file, and the distance from here to where the last rebuilt window ends. */
  delta: z.object({ takenBytes: z.number(), skipBytes: z.number() }).optional(),
  /** The files that were staged completely, in their order. */
  whole: z.array(z.object({ payload: z.number(), name: z.string(), sizeBytes: z.number() })).readonly(),
});

/**
 * A place where a transfer can resume after a restart. It is written only after the data that it describes is durable.
 */
const checkpoint = z.object({
  wire: wirePosition,
  /** The state of the text decoder at that place. */
  encoding: z.enum(['base64', 'base64url', 'hex']),
  carry: z.string(),
  /** The content of the current target up to that place. */
  image: digestedPart,
  /** Omitted for a raw image. */
  artifact: artifactPlace.optional(),
});

/** The verified content of a staged release. */
const firmware = z.object({
  digest: z.string(),
  signedBy: z.string().optional(),
  /** The name of the release itself. */
  name: z.string().optional(),
  /** The `security_version` that the release itself provides. */
  securityVersion: z.number().optional(),
  provides: z.record(z.string(), z.string()),
  /** The content of the slots and files, by target, so that it can be verified again by reading. */
  payloads: z.array(
    digestedPart.extend({
      target: z.string(),
      kind: z.enum(['slots', 'mcu', 'package']),
      order: z.number().optional(),
      securityCounter: z.number().optional(),
      imageVersion: z.string().optional(),
      /** For a manual rollback: this board gets its earlier image back. */
      back: z.boolean().optional(),
      /**
       * For an installed payload: the digest of the image that it replaced on the board, or `none` if that was not from
       * an update.
       */
      over: z.string().optional(),
    }),
  ),
});

/** The state of the boards of an update, by target. A board that is not named is untouched. */
const boards = z.record(z.string(), z.enum(['touched', 'flashed']));

const onItsWay = { attempt, slot: slotName, firmware };

/** The phase of an update. */
export const phase = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('idle') }),
  /** The phase could not be understood: it is damaged, or of a newer agent, for which `was` keeps it as found. */
  z.object({ kind: z.literal('lost'), was: z.unknown().optional(), interrupted: attempt.optional() }),
  /** Nothing that boots has changed. From its first byte on, the slot is unbootable. */
  z.object({ kind: z.literal('staging'), attempt, slot: slotName, checkpoint: checkpoint.optional() }),
  /** The slot is written, read back and verified; it may already be armed. */
  z.object({ kind: z.literal('staged'), ...onItsWay, trialsLeft: z.number() }),
  /** The slot is armed; `bootId` is the boot in which that happened. */
  z.object({
    kind: z.literal('trial'),
    ...onItsWay,
    trialsLeft: z.number(),
    bootId: z.string(),
    /** An operator wants to reboot manually. */
    rebootByHand: z.boolean(),
    judgements: z.number(),
    /** The trial was healthy, or an operator committed it: only the commit is missing. */
    approved: z.boolean(),
    boards,
    /** False: this agent has not asked for the reboot into the trial, so another reboot may have come first. */
    rebootAsked: z.boolean().optional(),
  }),
  z.object({
    kind: z.literal('rolling-back'),
    ...onItsWay,
    code: z.string(),
    reason: z.string(),
    fault: z.enum(['firmware', 'world', 'person']),
    /** The boards that must get back what they held. */
    boards,
    /** The number of attempts to restore the boards. */
    restores: z.number(),
  }),
]);

export const installed = open({
  ...firmware.shape,
  version: versionRef,
  slot: slotName,
  at: z.string(),
  /** No agent has installed it: the version is the image's own word, and nothing of it was verified. */
  factory: z.boolean().optional(),
  /** An operator installed it when the service offered this version. It stays until the service offers another one. */
  overrides: z.string().optional(),
  /** An operator installed it, and the offer at that time is unknown: the next check shows it. */
  byHand: z.boolean().optional(),
  /** An operator rolled back to it from the version in `overrides`, or before that was offered. */
  wentBack: z.boolean().optional(),
  /** A version of the service that has the same name, but is another one. */
  namesake: z.string().optional(),
  /** A trust list followed: the service knows the release by the list's ID, and knew it by `ownId` before. */
  underList: z.object({ id: z.string(), name: z.string(), ownId: z.string().optional() }).optional(),
});

/** The result of an attempt, as reported to the service. */
export const outcome = open({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  /** The number of earlier attempts with the same result that are not reported separately. */
  count: z.number().optional(),
  /** The number of earlier results that were dropped, because the service was unreachable for too long. */
  dropped: z.number().optional(),
  by: requester.optional(),
  /** The number of the trust list that took effect. */
  trustList: z.number().optional(),
});

/** Since when something waits, and for how many update checks already. */
export const waiting = { since: z.string().optional(), looks: z.number().optional() };

/** The history of a release that the service offered or an operator installed. */
export const versionEntry = open({
  /** Omitted if its header was never read. */
  digest: z.string().optional(),
  /** The last id that the service offered it under. */
  version: versionRef,
  /** The number of starts, of failures, and of failures that are permanent. */
  begun: z.number(),
  failed: z.number(),
  gaveUp: z.number(),
  ...waiting,
  /** An operator cancelled it: only an operator starts it again. */
  cancelled: z.boolean().optional(),
  /** An operator replaced it: it stays away until the service has installed another one, or an operator forces it. */
  overridden: z.boolean().optional(),
  /** It failed in a trial. */
  ran: z.boolean().optional(),
  /** The reason for its quarantine. `content`: the digest of each target, as a delta of the release has them, too. */
  bad: open({
    code: z.string(),
    reason: z.string(),
    at: z.string(),
    content: z.record(z.string(), z.string()).optional(),
  }).optional(),
});

/** An operator's hold. It survives restarts and applies in both slots. The journal of 0.1 calls it `standstill`. */
export const standstill = z.object({
  since: z.string(),
  /** ISO 8601. Omitted if only `agent resume` ends it. */
  until: z.string().optional(),
  reason: z.string().optional(),
});

/** A notification hook that has not run yet. */
export const owedHook = z.object({
  hook: z.enum(['after_commit', 'after_rollback']),
  attempt: z.string(),
  by: requester,
  version: versionRef,
  slot: slotName,
  /** The reason for abandoning the version. */
  code: z.string().optional(),
  reason: z.string().optional(),
});

/** Versions whose delta did not fit the running one, by ID, oldest first: their full images are wanted. */
export const unfitDeltas = z.object({
  versions: z.array(z.string()),
  /** The service knows, if a property is configured to tell it. */
  told: z.boolean(),
});

/** Invariant 2: what a partition was last verified to hold. Gone, durably, before its first byte is written. */
const partitionRecord = open({
  ...digestedPart.shape,
  /** The name of the version. */
  version: z.string(),
  signedBy: z.string().optional(),
  /** Nothing writes to the image while it runs, so different content means tampering. */
  readOnly: z.boolean().optional(),
  at: z.string(),
});

export const slotKnowledge = z.object({
  /** The content of each partition of the slot, by target. */
  records: z.record(z.string(), partitionRecord),
  /** The slot was seen running with its present content. This is removed with the first record. */
  seen: z.object({ at: z.string() }).optional(),
});

const floor = z.object({
  securityVersion: z.number().optional(),
  /** The highest semantic version among the names of signed releases, or of images for MCUboot. */
  name: z.string().optional(),
  /** The semantic version of the factory image, which counts until the first signed release is committed. */
  factory: z.string().optional(),
});

/** Guarantee `floors`: the lowest values that a signed release must have. A commit raises them, nothing lowers them. */
export const floors = z.object({
  floor: floor.optional(),
  /** For images for MCUboot, by board. The security version of an image is its security counter. */
  boardFloors: z.record(z.string(), floor).optional(),
});
