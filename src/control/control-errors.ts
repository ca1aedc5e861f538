import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { AgentError } from '../system/errors.ts';
import type { ExitKind } from '../system/errors.ts';
import type { ReportedError } from './events.ts';

const RequestErrors = defineErrors('ControlRequestError', {
  'control-route-unknown': permanent.usage('The control socket does not have this path.'),
  'control-method-wrong': permanent.usage('The path of the control socket does not take this method.'),
  'control-request-invalid': permanent.usage('The agent does not take what it was asked, or not with this input.'),
  'control-request-too-large': permanent.usage('The request to the control socket is too large.'),
  'control-request-slow': permanent.usage('The request to the control socket was not complete in time.'),
});

/** The control socket refuses a request; `status` is that of HTTP. */
export class ControlRequestError extends RequestErrors {
  readonly status: number;

  constructor(status: number, code: CodeOf<typeof RequestErrors>, message: string) {
    super(code, message);
    this.status = status;
  }
}

export function requestTooLarge(maxBytes: number): ControlRequestError {
  return new ControlRequestError(413, 'control-request-too-large', `a request takes at most ${maxBytes} bytes`);
}

/** The connection between a program and the daemon failed. */
export class ControlError extends defineErrors('ControlError', {
  'agent-stopping': transient.tryAgain(
    'The daemon is stopping.',
    'what was begun is finished or undone when it starts again: agent status',
  ),
  'answer-timeout': transient.tryAgain(
    'The daemon did not finish in time.',
    'try again; agent status shows what the daemon does',
  ),
  'file-not-sent': transient.tryAgain(
    'The client that sends a file went away, or sent nothing for too long, before the whole file had come.',
    'run the command again',
  ),
  preempted: transient.tryAgain(
    'The operation was ended because a person asked for something that goes before it.',
    'agent status shows what became of it',
  ),
  'cannot-cancel': permanent.refused(
    'What is under way is past the point where it could be cancelled.',
    'wait for its end: agent status',
  ),
  'daemon-reply-invalid': permanent.protocol(
    'The answer of the daemon cannot be understood.',
    'it may be of another version: systemctl restart thing-agent',
  ),
  'daemon-lost': transient.tryAgain(
    'The daemon went away before it answered.',
    'what was begun is finished or undone when it starts again: agent status',
  ),
  'daemon-unresponsive': transient.tryAgain(
    'The daemon does not answer.',
    'systemctl restart thing-agent; see what it did: journalctl -u thing-agent',
  ),
  'control-not-permitted': permanent.refused(
    'This user may not ask the daemon for this.',
    'use sudo, or join the group thing-operators (thing-agent, for status and history and to send datapoints)',
  ),
  'control-overloaded': transient.tryAgain('The daemon answers as many at once as it can.', 'try again in a moment'),
  'control-socket-in-use': permanent.tryAgain(
    'Another daemon answers on the control socket.',
    'only one daemon runs on a gateway: agent status shows it',
  ),
  'control-socket-unavailable': permanent.disk(
    'The control socket cannot be made.',
    'check the run directory and its permissions',
  ),
}) {}

export function isNotPermitted(error: unknown): boolean {
  return error instanceof ControlError && error.code === 'control-not-permitted';
}

export function isUnresponsive(error: unknown): boolean {
  return error instanceof ControlError && error.code === 'daemon-unresponsive';
}

/** An error that the other side of a socket reported; its code comes from a table of that side. */
export class ReportedFailure extends AgentError {
  constructor(error: ReportedError) {
    super({ ...error, remedy: error.exit === 'tryAgain' ? 'retry' : 'give-up' });
  }
}

/** The error of everything that the end of the daemon interrupts. It is continued when the daemon starts again. */
export function agentStopping(): ControlError {
  return new ControlError('agent-stopping', 'the daemon is stopping');
}

/** What the other side of a socket is told of an error. The text of a defect is only in the log. */
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
