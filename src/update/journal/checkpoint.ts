import type { Checkpoint } from '../ports.ts';
import type { PhaseOf } from './state.ts';

/**
 * The room that a staging needs for its checkpoints, with the head of an artifact, history and outbox. Without it, each
 * look would transfer anew up to the point where the room ends.
 */
export const STAGING_ROOM_BYTES = 256 * 1024;

/** The checkpoint of a cut staging; undefined: there is none. */
export function checkpointOf({ checkpoint, artifactCheckpoint }: PhaseOf<'staging'>): Checkpoint | undefined {
  return artifactCheckpoint ?? checkpoint;
}

/** The staging with another checkpoint; undefined: the previous one is of no use. */
export function withCheckpoint(
  { kind, attempt, slot }: PhaseOf<'staging'>,
  checkpoint: Checkpoint | undefined,
): PhaseOf<'staging'> {
  const phase = { kind, attempt, slot };
  if (checkpoint === undefined) return phase;
  const { artifact, ...rest } = checkpoint;
  return artifact === undefined ? { ...phase, checkpoint } : { ...phase, artifactCheckpoint: { ...rest, artifact } };
}

/** Whether this checkpoint is further in the text than any before in this attempt. */
export function hasAdvanced(staging: PhaseOf<'staging'>, checkpoint: Checkpoint | undefined): boolean {
  return (checkpoint?.wire.offset ?? 0) > (checkpointOf(staging)?.wire.offset ?? 0);
}
