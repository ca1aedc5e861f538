import { defineErrors, permanent, transient } from '../../system/define-errors.ts';
import type { CodeOf } from '../../system/define-errors.ts';

/** It cannot be found out, changed or trusted which slot boots. */
export class BootloaderError extends defineErrors('BootloaderError', {
  'boot-environment-unreadable': transient.disk(
    'The tool, the file or the device of the boot environment is not responding, or its checksum is wrong.',
  ),
  'boot-environment-invalid': permanent.disk(
    'The boot environment was read, but its content makes no sense. Nothing is guessed and nothing is written.',
  ),
  'boot-environment-unwritable': transient.disk('The boot environment cannot be written.'),
  'boot-environment-misplaced': permanent.configuration(
    'The bootloader reads other data than the agent writes to the boot environment.',
    'put it on a separate file system, FAT or ext4, created with the image',
  ),
  'boot-write-not-confirmed': permanent.disk(
    'The boot environment was written without an error, but reads back differently.',
  ),
  'no-fallback-slot': permanent.refused('The change would leave no slot that is known to boot.'),
  'slot-unbootable': permanent.refused('A slot to be committed is marked unbootable and is not running.'),
  'booted-slot-unknown': permanent.failed('Neither the kernel command line nor the mounts show the running slot.'),
  'booted-slot-contradiction': permanent.failed('Two sources name two different slots as the running one.'),
  'handler-failed': transient.failed(
    'The integrator’s boot handler failed, or printed a word that its interface does not define.',
  ),
}) {}

export type BootloaderErrorCode = CodeOf<typeof BootloaderError>;
