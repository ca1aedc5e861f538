import type { ProgressPhase } from '../reports.ts';
import type { OperationRequest } from './operation-runner.ts';

/** An operation that is asked for while another one may run. */
export type RequestedOperation = Omit<OperationRequest, 'operation'> & {
  readonly operation: OperationRequest['operation'] | 'reboot' | 'hold';
};

/** How far the running operation has come. */
export interface OperationProgress {
  readonly phase: ProgressPhase | undefined;
  /** The step of a board. */
  readonly step: string | undefined;
}

export type PreemptionDecision =
  /** The request joins the running operation. */
  | 'follow'
  /** The running operation is interrupted: a person decides what it was to find out. */
  | 'interrupt'
  | 'busy';

/**
 * What happens to a request while an operation runs. A person's decision interrupts a look, a download or the judging
 * of a trial, but never a short write that decides. Pure.
 */
export function precedence(
  running: OperationRequest,
  at: OperationProgress,
  wanted: RequestedOperation,
): PreemptionDecision {
  if (includes(running, wanted)) return 'follow';
  const givesWay = (preemptionRules[wanted.operation] ?? []).some((isSo) => isSo(running, at));
  return givesWay ? 'interrupt' : 'busy';
}

/** The kinds of running work that each request interrupts. A request that is not named here interrupts nothing. */
const preemptionRules: Partial<
  Record<RequestedOperation['operation'], readonly ((running: OperationRequest, at: OperationProgress) => boolean)[]>
> = {
  commit: [isRecovering, isOnTrial],
  reboot: [isChecking, isOnTrial],
  rollback: [isChecking, isStaging, isOnTrial],
  hold: [isChecking, isStaging],
  cancel: [isChecking, isStaging, isReading],
};

/** Whether the running operation does what is wanted: the same thing, with the same reboot, at least as forced. */
function includes(running: OperationRequest, wanted: RequestedOperation): boolean {
  return isSameOperation(running, wanted) && optionsThatDiffer(running, wanted).length === 0;
}

/** With which options a request that differs in nothing else would follow the running operation; undefined: with none. */
export function optionsToJoin(running: OperationRequest, wanted: RequestedOperation): string | undefined {
  const differ = optionsThatDiffer(running, wanted);
  return isSameOperation(running, wanted) && differ.length > 0 ? differ.join(' and ') : undefined;
}

function isSameOperation(running: OperationRequest, wanted: RequestedOperation): boolean {
  return running.operation === wanted.operation && running.path === wanted.path && running.board === wanted.board;
}

function optionsThatDiffer(running: OperationRequest, wanted: RequestedOperation): readonly string[] {
  const reboots = `${running.reboot === false ? 'with' : 'without'} --no-reboot`;
  return [
    ...(running.reboot === wanted.reboot ? [] : [reboots]),
    ...(running.force === true || wanted.force !== true ? [] : ['without --force']),
  ];
}

/**
 * Settling what an earlier start left. In later phases there is no trial, and a commit would interrupt a download in
 * vain.
 */
function isRecovering({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && phase === undefined;
}

/** Settling, or asking the service: nothing of this update is decided yet. */
function isChecking({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && (phase === undefined || phase === 'checking');
}

function isStaging({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && (phase === 'staging' || phase === 'verifying');
}

/** Waiting for health, or flashing the boards of a trial. */
function isOnTrial({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  const mayJudge = isInstalling(operation) || operation === 'commit';
  return mayJudge && (phase === 'health' || phase === 'flashing');
}

/** Reading a board that is not being written yet. */
function isReading({ operation }: OperationRequest, { step }: OperationProgress): boolean {
  const isByHand = operation === 'flash' || operation === 'restore';
  return isByHand && step !== 'writing' && step !== 'starting' && step !== 'done';
}

function isInstalling(operation: OperationRequest['operation']): boolean {
  return operation === 'update' || operation === 'install';
}
