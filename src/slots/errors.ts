import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { describeError, systemErrorCode } from '../system/errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/** A slot cannot be used or written, or does not hold what was written. */
const SlotErrors = defineErrors('SlotError', {
  'state-on-slot': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The state directory lies on a slot, so that an update would overwrite it, or not find it.',
    advice: 'mount a third partition at paths.state, in the image of both slots',
  },
  'slot-missing': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The path of a slot in [targets] leads nowhere.',
    advice: 'check the slot’s path in [targets] and the partition labels',
  },
  'slot-wrong-kind': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'What stands at the path of a slot is neither a block device nor a regular file.',
    advice: 'a slot is a block device or a regular file',
  },
  'slots-identical': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'Slot A and slot B are the same partition.',
    advice: 'give slot A and slot B different partitions in [targets]',
  },
  'slot-booted': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The slot that was to be written is the one that runs.',
    advice: 'the running system is never overwritten: check which slot the bootloader says is booted',
  },
  'slot-mounted': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The slot that was to be written is mounted.',
    advice: 'unmount it',
  },
  'slot-busy': {
    remedy: 'retry',
    exit: 'disk',
    means: 'Something else holds the slot: swap, a volume, another program.',
    advice: 'find out what holds it (swapon --show, lsblk, fuser) and let it go',
  },
  'slot-read-only': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The slot cannot be written: the device, or what holds it, is read-only.',
    advice: 'check the write protection (blockdev --getro, the card’s switch, the mount options)',
  },
  'slot-denied': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The agent may not open the slot.',
    advice: 'run the agent as root, or let it write the device',
  },
  'slot-too-small': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The image is larger than the slot.',
    advice: 'use a smaller image or larger partitions',
  },
  'slot-no-space': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The file that stands for a slot cannot grow: its file system is full.',
    advice: 'make room on the file system that holds the slot’s file',
  },
  'slot-vanished': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The device of the slot went away.',
    advice: 'check the cable, the card or the power of that drive',
  },
  'slot-io-error': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'Reading or writing the slot failed.',
    advice: 'see the kernel’s log; the medium may be worn out',
  },
  'slot-stalled': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The device of the slot did not answer in time.',
    advice: 'see the kernel’s log; the medium does not answer',
  },
  'readback-mismatch': {
    remedy: 'retry',
    exit: 'disk',
    means: 'What was read back from the slot is not what was written.',
    advice: 'if it happens again, replace the medium',
  },
  'checkpoint-stale': sharedErrors['checkpoint-stale'],
  'mounts-unknown': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'It cannot be known which partitions are mounted.',
    advice: 'mount /proc',
  },
  'hash-worker-failed': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The thread that computes digests ended.',
    advice: 'check that the machine has memory left',
  },
});

export type SlotErrorCode = CodeOf<typeof SlotErrors>;

export class SlotError extends SlotErrors {
  /** `where` names the slot for a person: `slot B (/dev/…)`. */
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
  ENODEV: 'slot-vanished',
  ENXIO: 'slot-vanished',
  ENOMEDIUM: 'slot-vanished',
  ESTALE: 'slot-vanished',
};

/** Translates an error of the operating system about a slot; a translated one passes through. */
export function slotError(where: string, action: string, error: unknown): SlotError {
  if (error instanceof SlotError) return error;
  const code = codesOfSystem[systemErrorCode(error) ?? ''] ?? 'slot-io-error';
  return new SlotError(code, where, `cannot ${action}: ${describeError(error)}`, error);
}
