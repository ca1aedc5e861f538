import { AgentError } from '../../system/errors.ts';
import type { ExitKind, Remedy } from '../../system/errors.ts';

const kinds = {
  /** The tool, the file or the device does not answer, or its checksum is wrong. */
  'boot-environment-unreadable': ['retry', 'disk'],
  /** It was read, but what it says makes no sense: nothing is guessed and nothing is written. */
  'boot-environment-invalid': ['give-up', 'disk'],
  'boot-environment-unwritable': ['retry', 'disk'],
  /** It was written without an error, and what is read back differs. */
  'boot-write-not-confirmed': ['give-up', 'disk'],
  /** The change would leave nothing that is known to boot. */
  'no-fallback-slot': ['give-up', 'refused'],
  /** Asked to keep a slot that is marked unbootable and does not run. */
  'slot-unbootable': ['give-up', 'refused'],
  'booted-slot-unknown': ['give-up', 'failed'],
  /** Two sources name two slots. */
  'booted-slot-contradiction': ['give-up', 'failed'],
  /** The integrator's program ended with an error or said something that the interface does not know. */
  'handler-failed': ['retry', 'failed'],
} as const satisfies Readonly<Record<string, readonly [Remedy, ExitKind]>>;

export type BootloaderErrorCode = keyof typeof kinds;

/** Which slot boots cannot be read, changed or believed. */
export class BootloaderError extends AgentError {
  override readonly name = 'BootloaderError';

  constructor(code: BootloaderErrorCode, message: string, details: { advice?: string; cause?: unknown } = {}) {
    const [remedy, exit] = kinds[code];
    super({ code, message, remedy, exit, ...details });
  }
}
