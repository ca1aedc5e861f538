import { defineErrors, permanent, transient } from '../../system/define-errors.ts';
import type { CodeOf } from '../../system/define-errors.ts';

/** It cannot be found out, changed or trusted which slot boots. */
export class BootloaderError extends defineErrors('BootloaderError', {
  'boot-environment-unreadable': transient.disk(
    'The tool, the file or the device of the boot environment does not answer, or its checksum is wrong.',
  ),
  'boot-environment-invalid': permanent.disk(
    'The boot environment was read, but what it says makes no sense. Nothing is guessed and nothing is written.',
  ),
  'boot-environment-unwritable': transient.disk('The boot environment cannot be written.'),
  'boot-environment-misplaced': permanent.configuration(
    'What is written to the boot environment is not what the bootloader reads of it.',
    'let it lie on a file system of its own, FAT or ext4, made with the image',
  ),
  'boot-write-not-confirmed': permanent.disk(
    'The boot environment was written without an error, and what is read back differs.',
  ),
  'no-fallback-slot': permanent.refused('The change would leave nothing that is known to boot.'),
  'slot-unbootable': permanent.refused('A slot was to be kept that is marked unbootable and does not run.'),
  'booted-slot-unknown': permanent.failed('Neither the kernel command line nor the mounts say which slot runs.'),
  'booted-slot-contradiction': permanent.failed('Two sources name two different slots as the one that runs.'),
  'handler-failed': transient.failed(
    'The integrator’s boot handler ended with an error, or said something that its interface does not know.',
  ),
}) {}

export type BootloaderErrorCode = CodeOf<typeof BootloaderError>;
