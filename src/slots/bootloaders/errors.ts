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
    'let it lie on a file system of its own, FAT or ext4, made with the image',
  ),
  'boot-write-not-confirmed': permanent.disk(
    'The boot environment was written without an error, and what is read back differs.',
  ),
  'no-fallback-slot': permanent.refused('The change would leave nothing that is known to boot.'),
  'slot-unbootable': permanent.refused('A slot was to be kept that is marked unbootable and does not run.'),
  'booted-slot-unknown': permanent.failed('Neither the kernel command line nor the mounts say which slot runs.'),
  'booted-slot-contradiction': permanent.failed('Two sources name two different slots as the running one.'),
  'handler-failed': transient.failed(
    'The integrator’s boot handler failed, or printed a word that its interface does not define.',
  ),
}) {}

export type BootloaderErrorCode = CodeOf<typeof BootloaderError>;
