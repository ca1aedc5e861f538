import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';

/** Errors of a serial port, whoever uses it. */
export class SerialError extends defineErrors('SerialError', {
  'port-missing': {
    remedy: 'retry',
    exit: 'disk',
    means: 'Nothing is plugged in where a board should be.',
    advice: 'check the cable and the port name; `ls /dev/serial/by-id`',
  },
  'port-busy': {
    remedy: 'retry',
    exit: 'disk',
    means: 'Another program holds the port of a board.',
    advice: 'another program holds the port; `fuser` names it',
  },
  'port-denied': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The agent may not open the port of a board.',
    advice: 'give the agent the group of the port, often dialout',
  },
  'port-unplugged': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The port of a board went away.',
    advice: 'check the cable; the flash can simply be repeated',
  },
  'port-failed': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The port of a board failed.',
    advice: 'check the kernel log for the port',
  },
}) {
  /** The same failure, with the name of the board before the message. */
  on(board: string): SerialError {
    return new SerialError(this.code, `${board}: ${this.message}`, { advice: this.advice, cause: this });
  }
}

export type SerialCode = CodeOf<typeof SerialError>;
