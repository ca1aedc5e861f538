import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';

/** Errors of a serial port, for all its users. */
export class SerialError extends defineErrors('SerialError', {
  'port-missing': transient.disk(
    'The port of a board does not exist.',
    'check the cable and the port name; `ls /dev/serial/by-id`',
  ),
  'port-busy': transient.disk(
    'Another program holds the port of a board.',
    'find that program with `fuser`, and stop it',
  ),
  'port-denied': permanent.disk(
    'The agent may not open the port of a board.',
    'add the agent to the group of the port, often dialout',
  ),
  'port-disconnected': transient.disk('The port of a board disappeared.', 'check the cable, and flash again'),
  'port-failed': transient.disk('The port of a board failed.', 'check the kernel log for the port'),
}) {
  /** The same failure, with the name of the board before the message. */
  on(board: string): SerialError {
    return new SerialError(this.code, `${board}: ${this.message}`, { advice: this.advice, cause: this });
  }
}

export type SerialCode = CodeOf<typeof SerialError>;
