import { AgentError, describeError, systemErrorCode } from '../system/errors.ts';
import type { Remedy } from '../system/errors.ts';

/** Every code of this error, with what waiting can do about it and what a person can do. */
const known = {
  'slot-missing': ['give-up', 'check the slot’s path in [targets] and the partition labels'],
  'slot-wrong-kind': ['give-up', 'a slot is a block device or a regular file'],
  'slots-identical': ['give-up', 'give slot A and slot B different partitions in [targets]'],
  'slot-booted': ['give-up', 'the running system is never overwritten: check which slot the bootloader says is booted'],
  'slot-mounted': ['give-up', 'unmount it'],
  'slot-busy': ['retry', 'find out what holds it (swapon --show, lsblk, fuser) and let it go'],
  'slot-read-only': ['give-up', 'check the write protection (blockdev --getro, the card’s switch, the mount options)'],
  'slot-denied': ['give-up', 'run the agent as root, or let it write the device'],
  'slot-too-small': ['give-up', 'use a smaller image or larger partitions'],
  'slot-no-space': ['give-up', 'make room on the file system that holds the slot’s file'],
  'slot-vanished': ['retry', 'check the cable, the card or the power of that drive'],
  'slot-io-error': ['give-up', 'see the kernel’s log; the medium may be worn out'],
  'slot-stalled': ['retry', 'see the kernel’s log; the medium does not answer'],
  'readback-mismatch': ['retry', 'if it happens again, replace the medium'],
  'checkpoint-stale': ['retry', undefined],
  'mounts-unknown': ['give-up', 'mount /proc'],
  'hash-worker-failed': ['retry', 'check that the machine has memory left'],
} as const satisfies Record<string, readonly [Remedy, string | undefined]>;

export type SlotErrorCode = keyof typeof known;

/** A slot cannot be used, written, or does not hold what was written. */
export class SlotError extends AgentError {
  override readonly name = 'SlotError';
  override readonly code: SlotErrorCode;

  /** `where` names the slot for a person: `slot B (/dev/…)`. */
  constructor(code: SlotErrorCode, where: string, why: string, cause?: unknown) {
    const [remedy, advice] = known[code];
    super({ code, message: `${where}: ${why}`, remedy, exit: 'disk', advice, cause });
    this.code = code;
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

/** What the operating system says about a slot; errors that have been translated already pass through. */
export function slotError(where: string, action: string, error: unknown): SlotError {
  if (error instanceof SlotError) return error;
  const code = codesOfSystem[systemErrorCode(error) ?? ''] ?? 'slot-io-error';
  return new SlotError(code, where, `cannot ${action}: ${describeError(error)}`, error);
}
