import * as z from 'zod';

import type { FlashPhase } from '../flash/flash.ts';
import type { PackedAbout } from './packed-image.ts';

// Flashing where the folder of a board is in one process, and its line in another. The side of the folder asks for each
// step, so that the side of the line says nothing unasked, and waits where a record must be durable first.

export interface FlashOrder {
  /** The name of the target. */
  readonly board: string;
  readonly image: PackedAbout;
  /** What the board probably holds. It follows the image. */
  readonly expected?: PackedAbout | undefined;
  /** Whether what the board holds is read, and kept, before it is written. */
  readonly keeps: boolean;
}

const phase = z.enum<FlashPhase[]>(['connecting', 'keeping', 'comparing', 'writing', 'starting', 'done']);
const size = z.int().nonnegative();

/** What comes next on the line. The side of the folder trusts none of it. */
export const flashStep = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('progress'), phase, doneBytes: size, totalBytes: size }),
  /** Its bytes are the next piece of what the board holds, packed. None at all: nothing to go back to. */
  z.strictObject({ kind: z.literal('held'), isLast: z.boolean() }),
  /** The board is changed as soon as the step after this one is asked for. */
  z.strictObject({ kind: z.literal('writing') }),
  z.strictObject({
    kind: z.literal('flashed'),
    chip: z.string().regex(/^[\x20-\x7e]{1,64}$/),
    unitsWritten: size,
    repeated: size,
    roundTripMs: z.number().nonnegative().optional(),
  }),
]);
export type FlashStep = z.infer<typeof flashStep>;

export interface FlashStepAnswer {
  readonly step: FlashStep;
  readonly bytes?: Uint8Array | undefined;
}

/** The other process, which has the line. */
export interface LinePort {
  /** Returns the number of the job. */
  open(order: FlashOrder, signal: AbortSignal): Promise<number>;
  feed(job: number, piece: Uint8Array, signal: AbortSignal): Promise<void>;
  step(job: number, signal: AbortSignal): Promise<FlashStepAnswer>;
  /**
   * Ends the job; resolves when the line is free. It does not fail, since what went wrong before counts. After an abort
   * the other side ends it by itself.
   */
  close(job: number, signal: AbortSignal): Promise<void>;
  /** The error for a step that has no place where it came. */
  outOfTurn(what: string): Error;
}
