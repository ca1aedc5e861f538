import type { ProgressPhase } from '../reports.ts';
import type { OperationRequest } from './operation-runner.ts';

/** What may be asked for while something else runs. */
export type Wanted = Omit<OperationRequest, 'operation'> & {
  readonly operation: OperationRequest['operation'] | 'reboot' | 'hold';
};

/** How far it is that runs. */
export interface Standing {
  readonly phase: ProgressPhase | undefined;
  /** Of a board. */
  readonly step: string | undefined;
}

export type Precedence =
  /** Who asks gets it from what runs. */
  | 'follow'
  /** What runs gives way: a person decides what it was waiting to find out. */
  | 'interrupt'
  | 'busy';

/**
 * A person's word goes before the agent's judging of a trial, and before a look or a download; never before a write that
 * is short and decides. Pure.
 */
export function precedence(running: OperationRequest, at: Standing, wanted: Wanted): Precedence {
  if (includes(running, wanted)) return 'follow';
  const givesWay = (waysOf[wanted.operation] ?? []).some((isSo) => isSo(running, at));
  return givesWay ? 'interrupt' : 'busy';
}

/** What gives way to each; to everything else, nothing does. */
const waysOf: Partial<Record<Wanted['operation'], readonly ((running: OperationRequest, at: Standing) => boolean)[]>> =
  {
    commit: [isSettling, isJudging],
    reboot: [isLooking, isJudging],
    rollback: [isLooking, isStaging, isJudging],
    hold: [isLooking, isStaging],
    cancel: [isLooking, isStaging, isReading],
  };

/** Whether who wants `wanted` gets it from what runs: the same thing, rebooting alike, at least as forced. */
function includes(running: OperationRequest, wanted: Wanted): boolean {
  return (
    running.operation === wanted.operation &&
    running.path === wanted.path &&
    running.board === wanted.board &&
    running.reboot === wanted.reboot &&
    (running.force === true || wanted.force !== true)
  );
}

/** What was left; later there is no trial, and a commit would end a download for nothing. */
function isSettling({ operation }: OperationRequest, { phase }: Standing): boolean {
  return isInstalling(operation) && phase === undefined;
}

/** Or settling what was left; nothing of this update is decided yet. */
function isLooking({ operation }: OperationRequest, { phase }: Standing): boolean {
  return isInstalling(operation) && (phase === undefined || phase === 'checking');
}

function isStaging({ operation }: OperationRequest, { phase }: Standing): boolean {
  return isInstalling(operation) && (phase === 'staging' || phase === 'verifying');
}

/** Waiting for health, or bringing the boards of a trial to their new programs. */
function isJudging({ operation }: OperationRequest, { phase }: Standing): boolean {
  const mayJudge = isInstalling(operation) || operation === 'commit';
  return mayJudge && (phase === 'health' || phase === 'flashing');
}

/** A board that is not written yet. */
function isReading({ operation }: OperationRequest, { step }: Standing): boolean {
  const isByHand = operation === 'flash' || operation === 'restore';
  return isByHand && step !== 'writing' && step !== 'starting' && step !== 'done';
}

function isInstalling(operation: OperationRequest['operation']): boolean {
  return operation === 'update' || operation === 'install';
}
