import type { Checkpoint } from '../ports.ts';
import type { PhaseOf } from './state.ts';

/** For checkpoints, with the head of an artifact, history and outbox. Begun without it, each look would transfer anew up to where it lacks. */
export const STAGING_ROOM_BYTES = 256 * 1024;

/** Where a staging that was cut may go on. */
export function checkpointOf({ checkpoint, artifactCheckpoint }: PhaseOf<'staging'>): Checkpoint | undefined {
  return artifactCheckpoint ?? checkpoint;
}

/** The staging with another checkpoint; undefined: the one before is of no use. */
export function withCheckpoint(
  { kind, attempt, slot }: PhaseOf<'staging'>,
  checkpoint: Checkpoint | undefined,
): PhaseOf<'staging'> {
  const phase = { kind, attempt, slot };
  if (checkpoint === undefined) return phase;
  const { artifact, ...rest } = checkpoint;
  return artifact === undefined ? { ...phase, checkpoint } : { ...phase, artifactCheckpoint: { ...rest, artifact } };
}

/** It got further in the text than any transfer of this attempt before. */
export function getsOn(staging: PhaseOf<'staging'>, checkpoint: Checkpoint | undefined): boolean {
  return (checkpoint?.wire.offset ?? 0) > (checkpointOf(staging)?.wire.offset ?? 0);
}
