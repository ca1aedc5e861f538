import * as z from 'zod';

import { attempt } from './attempt.ts';
import { artifactCheckpoint, checkpoint } from './checkpoint-record.ts';
import { firmwareRecord as firmware } from './firmware-record.ts';
import { slotName } from './slot-record.ts';

/** The state of the boards of an update, by target. A board that is not named is untouched. */
const boards = z.record(z.string(), z.enum(['touched', 'flashed'])).default({});

/** Where an update stands. */
export const phase = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('idle') }),
  /** The phase could not be understood: it is damaged, or of a newer agent, for which `was` keeps it as found. */
  z.object({ kind: z.literal('lost'), was: z.unknown().optional(), interrupted: attempt.optional() }),
  /** Nothing that boots has changed. From its first byte on, the slot is unbootable. */
  z.object({
    kind: z.literal('staging'),
    attempt,
    slot: slotName,
    checkpoint: checkpoint.optional(),
    artifactCheckpoint: artifactCheckpoint.optional(),
  }),
  /** The slot is written, read back and verified; it may already be armed. */
  z.object({ kind: z.literal('staged'), attempt, slot: slotName, firmware, trialsLeft: z.number() }),
  /** The slot is armed; `bootId` is the boot in which that happened. */
  z.object({
    kind: z.literal('trial'),
    attempt,
    slot: slotName,
    firmware,
    trialsLeft: z.number(),
    bootId: z.string(),
    /** A person wants to reboot by hand. */
    rebootByHand: z.boolean(),
    judgements: z.number(),
    /** The trial was found healthy, or is kept by a person: only the commit is missing. */
    approved: z.boolean().default(false),
    boards,
    /** False: this agent has not asked for the reboot into the trial, so another reboot may have come first. */
    rebootAsked: z.boolean().optional(),
  }),
  z.object({
    kind: z.literal('rolling-back'),
    attempt,
    slot: slotName,
    firmware,
    code: z.string(),
    reason: z.string(),
    fault: z.enum(['firmware', 'world', 'person']).default('firmware'),
    /** The boards that must get back what they held. */
    boards,
    /** How often the restoring was begun. */
    restores: z.number().default(0),
  }),
]);
