import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { describeError, systemErrorCode } from '../system/errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/** A slot cannot be used or written, or does not hold the written data. */
const SlotErrors = defineErrors('SlotError', {
  'state-on-slot': permanent.configuration(
    'The state directory is on a slot, so that an update would overwrite it, or not find it.',
    'mount a third partition at paths.state, in the image of both slots',
  ),
  'slot-missing': permanent.disk(
    'The path of a slot in [targets] does not exist.',
    'check the slot’s path in [targets] and the partition labels',
  ),
  'slot-wrong-kind': permanent.disk(
    'The path of a slot is neither a block device nor a regular file.',
    'set the path of the slot to a block device or a regular file',
  ),
  'slots-identical': permanent.disk(
    'Slot A and slot B are the same partition.',
    'give slot A and slot B different partitions in [targets]',
  ),
  'slot-booted': permanent.disk(
    'The slot to be written is the running one.',
    'the running system is never overwritten: check which slot the bootloader reports as booted',
  ),
  'slot-mounted': permanent.disk('The slot to be written is mounted.', 'unmount it'),
  'slot-busy': transient.disk(
    'The slot is in use: as swap, by a volume or by another program.',
    'find the program that uses the device (swapon --show, lsblk, fuser), and stop it',
  ),
  'slot-read-only': permanent.disk(
    'The slot cannot be written: the device or its parent is read-only.',
    'check the write protection (blockdev --getro, the card’s switch, the mount options)',
  ),
  'slot-denied': permanent.disk(
    'The agent may not open the slot.',
    'run the agent as root, or permit it to write to the device',
  ),
  'slot-too-small': permanent.disk('The image is larger than the slot.', 'use a smaller image or larger partitions'),
  'slot-no-space': permanent.disk(
    'The file used as a slot cannot grow: its file system is full.',
    'free space on the file system of the slot’s file',
  ),
  'slot-disappeared': transient.disk(
    'The device of the slot disappeared.',
    'check the cable, the card or the power of that drive',
  ),
  'slot-io-error': permanent.disk(
    'Reading or writing the slot failed.',
    'see the kernel’s log; the medium may be worn out',
  ),
  'slot-stalled': transient.disk(
    'The device of the slot did not respond in time.',
    'see the kernel’s log; the medium is not responding',
  ),
  'readback-mismatch': transient.disk(
    'The slot reads back differently from the written data.',
    'if it happens again, replace the medium',
  ),
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
  'mounts-unknown': permanent.disk('The mounted partitions are unknown.', 'mount /proc'),
  'hash-worker-failed': transient.disk(
    'The thread that computes digests ended.',
    'check that the machine has memory left',
  ),
});

export type SlotErrorCode = CodeOf<typeof SlotErrors>;

export class SlotError extends SlotErrors {
  /** `where` names the slot in messages: `slot B (/dev/…)`. */
  constructor(code: SlotErrorCode, where: string, why: string, cause?: unknown) {
    super(code, `${where}: ${why}`, { cause });
  }
}

const codesOfSystem: Readonly<Record<string, SlotErrorCode>> = {
  ENOENT: 'slot-missing',
  ENOTDIR: 'slot-missing',
  EBUSY: 'slot-busy',
  ETXTBSY: 'slot-busy',
  EACCES: 'slot-denied',
  EPERM: 'slot-denied',
  EROFS: 'slot-read-only',
  ENOSPC: 'slot-no-space',
  EDQUOT: 'slot-no-space',
  EFBIG: 'slot-no-space',
  ENODEV: 'slot-disappeared',
  ENXIO: 'slot-disappeared',
  ENOMEDIUM: 'slot-disappeared',
  ESTALE: 'slot-disappeared',
};

/** Translates an error of the operating system about a slot; a translated one passes through. */
export function slotError(where: string, action: string, error: unknown): SlotError {
  if (error instanceof SlotError) return error;
  const code = codesOfSystem[systemErrorCode(error) ?? ''] ?? 'slot-io-error';
  return new SlotError(code, where, `cannot ${action}: ${describeError(error)}`, error);
}
