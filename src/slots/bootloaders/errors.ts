import { defineErrors, permanent, transient } from '../../system/define-errors.ts';
import type { CodeOf } from '../../system/define-errors.ts';
import { describeError, systemErrorCode } from '../../system/errors.ts';

/** It cannot be found out, changed or trusted which slot boots. */
export class BootloaderError extends defineErrors('BootloaderError', {
  'boot-environment-unreadable': transient.disk(
    'The tool, the file or the device of the boot environment is not responding, or its checksum is wrong.',
    'agent doctor shows the failing tool, file or device; compare it with [targets] bootloader',
  ),
  'boot-environment-invalid': permanent.disk(
    'The boot environment was read, but its content is invalid. The agent neither guesses nor writes.',
    'compare the boot environment with docs/bootloaders/README.md; agent doctor shows its content',
  ),
  'boot-environment-unwritable': transient.disk(
    'The boot environment cannot be written.',
    'check that the device or the file system of the boot environment is writable: agent doctor',
  ),
  'boot-environment-misplaced': permanent.configuration(
    'The bootloader reads other data than the agent writes to the boot environment.',
    'put it on a separate file system, FAT or ext4, created with the image',
  ),
  'boot-write-not-confirmed': permanent.disk(
    'The boot environment was written without an error, but reads back differently.',
    'check for another writer of the boot environment, and for failing storage: agent doctor',
  ),
  'no-fallback-slot': permanent.refused(
    'The change would leave no slot that is known to boot.',
    'nothing: the running slot stays. The next installed release restores the fallback: agent --update-now or agent install FILE',
  ),
  'slot-unbootable': permanent.refused(
    'A slot to be committed is marked unbootable and is not running.',
    'install a release into this slot: agent --update-now',
  ),
  'booted-slot-unknown': permanent.failed(
    'Neither the kernel command line nor the mounts show the running slot.',
    'add the slot to the kernel command line, as docs/bootloaders/README.md shows',
  ),
  'booted-slot-contradiction': permanent.failed(
    'Two sources name two different slots as the running one.',
    'correct the slots in [targets], or the kernel command line: agent doctor',
  ),
  'handler-failed': transient.failed(
    'The integrator’s boot handler failed, or printed a word that its interface does not define.',
    'run the handler yourself: HANDLER get-current; its interface is in docs/bootloaders/custom.md',
  ),
}) {}

export type BootloaderErrorCode = CodeOf<typeof BootloaderError>;

interface FileFailure {
  readonly code: BootloaderErrorCode;
  /** Begins the message, for example `cannot read FILE`. */
  readonly why: string;
  readonly advice?: string;
}

/** Returns the result of work on a file. An error with a code becomes a BootloaderError. */
export async function onFile<T>({ code, why, advice }: FileFailure, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (systemErrorCode(cause) === undefined) throw cause;
    throw new BootloaderError(code, `${why}: ${describeError(cause)}`, { advice, cause });
  }
}

/** The error of data that was written without an error, and reads back differently. */
export function notConfirmed(what: string): BootloaderError {
  return new BootloaderError(
    'boot-write-not-confirmed',
    `${what} was written without an error, but reads back differently`,
    { advice: 'check the medium, and that nothing else writes the boot environment' },
  );
}
