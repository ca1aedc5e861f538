import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { AgentError } from '../system/errors.ts';
import type { ExitKind } from '../system/errors.ts';
import type { ReportedError } from './events.ts';

const RequestErrors = defineErrors('ControlRequestError', {
  'control-route-unknown': permanent.usage(
    'The control socket does not have this path.',
    'the paths are in docs/api.md',
  ),
  'control-method-wrong': permanent.usage(
    'The path of the control socket does not accept this method.',
    'the methods are in docs/api.md',
  ),
  'control-request-invalid': permanent.usage(
    'The request to the control socket has an invalid input.',
    'the inputs are in docs/api.md',
  ),
  'control-request-too-large': permanent.usage(
    'The request to the control socket is too large.',
    'send less at a time',
  ),
  'control-request-slow': permanent.usage(
    'The request to the control socket was not complete in time.',
    'send the request without pauses',
  ),
});

/** The control socket rejects a request with this HTTP status. */
export class ControlRequestError extends RequestErrors {
  readonly status: number;

  constructor(status: number, code: CodeOf<typeof RequestErrors>, message: string) {
    super(code, message);
    this.status = status;
  }
}

export function requestTooLarge(maxBytes: number): ControlRequestError {
  return new ControlRequestError(413, 'control-request-too-large', `a request has at most ${maxBytes} bytes`);
}

export class ControlError extends defineErrors('ControlError', {
  'agent-stopping': transient.tryAgain(
    'The daemon is stopping.',
    'the operation is finished or undone when the daemon starts again: agent status',
  ),
  'answer-timeout': transient.tryAgain(
    'The daemon did not finish in time.',
    'try again; agent status shows what the daemon is doing',
  ),
  'file-not-sent': transient.tryAgain(
    'The client disconnected or timed out before it had sent the complete file.',
    'run the command again',
  ),
  preempted: transient.tryAgain(
    "An operator's request with higher priority interrupted this operation.",
    'to see the result: agent status',
  ),
  'cannot-cancel': permanent.refused(
    'The running operation can no longer be cancelled.',
    'wait until it ends: agent status',
  ),
  'daemon-reply-invalid': permanent.protocol(
    'The reply of the daemon is invalid.',
    'the daemon may have another version: systemctl restart thing-agent',
  ),
  'daemon-lost': transient.tryAgain(
    'The daemon closed the connection before it replied.',
    'the operation is finished or undone when the daemon starts again: agent status',
  ),
  'daemon-unresponsive': transient.tryAgain(
    'The daemon is not responding.',
    'see its log (journalctl -u thing-agent) and restart it: systemctl restart thing-agent',
  ),
  'control-not-permitted': permanent.refused(
    'This user is not permitted to request this from the daemon.',
    'use sudo, or join the group thing-operators (thing-agent, for status and history and to send datapoints)',
  ),
  'control-overloaded': transient.tryAgain(
    'The daemon is serving the maximum number of requests.',
    'try again in a moment',
  ),
  'control-socket-in-use': permanent.tryAgain(
    'Another daemon is using the control socket.',
    'run only one daemon on a gateway; to see the running one: agent status',
  ),
  'control-socket-unavailable': permanent.disk(
    'The control socket cannot be created.',
    'check the run directory and its permissions',
  ),
}) {}

export function isNotPermitted(error: unknown): boolean {
  return error instanceof ControlError && error.code === 'control-not-permitted';
}

export function isUnresponsive(error: unknown): boolean {
  return error instanceof ControlError && error.code === 'daemon-unresponsive';
}

/** An error that the peer of a socket reported, with a code of the peer. */
export class ReportedFailure extends AgentError {
  constructor(error: ReportedError) {
    super({ ...error, remedy: error.exit === 'tryAgain' ? 'retry' : 'give-up' });
  }
}

/**
 * Returns the error of an operation that the end of the daemon interrupts. The operation resumes when the daemon starts
 * again.
 */
export function agentStopping(): ControlError {
  return new ControlError('agent-stopping', 'the daemon is stopping');
}

/** Returns the error that is reported to the peer of a socket. The message of a defect is only in the log. */
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
