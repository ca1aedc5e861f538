import { AgentError, type ExitKind, type Failure } from '../system/errors.ts';
import type { ReportedError } from './operations.ts';

/** A request that the control socket does not take; `status` is HTTP's. */
export class ControlRequestError extends AgentError {
  override readonly name = 'ControlRequestError';
  readonly status: number;

  constructor(status: number, code: string, message: string) {
    super({ code, message, remedy: 'give-up', exit: 'usage' });
    this.status = status;
  }
}

/** The control socket cannot be made, or another daemon answers on it. */
export class ControlSocketError extends AgentError {
  override readonly name = 'ControlSocketError';

  constructor(failure: Omit<Failure, 'remedy'>) {
    super({ remedy: 'give-up', ...failure });
  }
}

/** The daemon ends; what runs is taken up again when it starts. */
export function agentStopping(): AgentError {
  return new AgentError({
    code: 'agent-stopping',
    message: 'the daemon is stopping',
    remedy: 'retry',
    exit: 'tryAgain',
    advice: 'what was begun is finished or undone when it starts again: agent status',
  });
}

/** What the other side may know of anything thrown. A defect shows its text in the log only. */
export function reportError(error: unknown): ReportedError {
  if (error instanceof AgentError) {
    return { code: error.code, message: error.message, exit: error.exit, advice: error.advice };
  }
  return {
    code: 'internal-error',
    message: 'the daemon failed unexpectedly',
    exit: 'failed',
    advice: 'see its log: journalctl -u thing-agent',
  };
}

export function httpStatus(error: unknown): number {
  if (error instanceof ControlRequestError) return error.status;
  return error instanceof AgentError ? statusOfExit[error.exit] : 500;
}

const statusOfExit: Readonly<Record<ExitKind, number>> = {
  usage: 400,
  refused: 403,
  tryAgain: 503,
  unreachable: 502,
  protocol: 502,
  failed: 500,
  disk: 500,
  configuration: 500,
};
