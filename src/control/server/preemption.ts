import type { ProgressPhase } from '../reports.ts';
import type { OperationRequest } from './operation-runner.ts';

/** A requested operation while another operation may be running. */
export type RequestedOperation = Omit<OperationRequest, 'operation'> & {
  readonly operation: OperationRequest['operation'] | 'reboot' | 'hold';
};

/** The progress of the running operation. */
export interface OperationProgress {
  readonly phase: ProgressPhase | undefined;
  /** The step of a board. */
  readonly step: string | undefined;
}

export type PreemptionDecision =
  /** The request joins the running operation. */
  | 'follow'
  /** The running operation is interrupted: an operator's decision replaces its result. */
  | 'interrupt'
  | 'busy';

/**
 * Decides about a request while an operation runs. An operator's decision interrupts a check, a download or the health
 * checks of a trial, but never a short, decisive write. Pure.
 */
export function precedence(
  running: OperationRequest,
  at: OperationProgress,
  wanted: RequestedOperation,
): PreemptionDecision {
  if (includes(running, wanted)) return 'follow';
  const isPreempted = (preemptionRules[wanted.operation] ?? []).some((isSo) => isSo(running, at));
  return isPreempted ? 'interrupt' : 'busy';
}

/** The kinds of running work that each request interrupts. A request that is not listed interrupts nothing. */
const preemptionRules: Partial<
  Record<RequestedOperation['operation'], readonly ((running: OperationRequest, at: OperationProgress) => boolean)[]>
> = {
  commit: [isRecovering, isOnTrial],
  reboot: [isChecking, isOnTrial],
  rollback: [isChecking, isStaging, isOnTrial],
  hold: [isChecking, isStaging],
  cancel: [isChecking, isStaging, isReading],
};

/** True if the running operation includes the requested one: the same operation and reboot, and at least as forced. */
function includes(running: OperationRequest, wanted: RequestedOperation): boolean {
  return isSameOperation(running, wanted) && optionsThatDiffer(running, wanted).length === 0;
}

/** Returns the options with which the same request would join the running operation, or undefined if it cannot join. */
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
 * True during recovery at startup. In later phases there is no trial, and a commit would interrupt a download in vain.
 */
function isRecovering({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && phase === undefined;
}

/** True during recovery or the check of the service, before a decision about an update. */
function isChecking({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && (phase === undefined || phase === 'checking');
}

function isStaging({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  return isInstalling(operation) && (phase === 'staging' || phase === 'verifying');
}

/** True while health checks run or the boards of a trial are flashed. */
function isOnTrial({ operation }: OperationRequest, { phase }: OperationProgress): boolean {
  const mayEvaluate = isInstalling(operation) || operation === 'commit';
  return mayEvaluate && (phase === 'health' || phase === 'flashing');
}

/** True while a board is read, before it is written. */
function isReading({ operation }: OperationRequest, { step }: OperationProgress): boolean {
  const isByHand = operation === 'flash' || operation === 'restore';
  return isByHand && step !== 'writing' && step !== 'starting' && step !== 'done';
}

function isInstalling(operation: OperationRequest['operation']): boolean {
  return operation === 'update' || operation === 'install';
}
