import { SerialError } from '../serial/errors.ts';
import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

/**
 * Everything that can go wrong with a board: with its image (found before the board is touched), its port, or itself.
 */
export class McuError extends defineErrors('McuError', {
  'image-malformed': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The file is no image of the format that it seems to be.',
  },
  'image-checksum': { remedy: 'give-up', exit: 'refused', means: 'A checksum inside the image is wrong.' },
  'image-truncated': { remedy: 'give-up', exit: 'refused', means: 'The image ends too early.' },
  'image-overlap': { remedy: 'give-up', exit: 'refused', means: 'Two parts of the image claim the same address.' },
  'image-empty': { ...sharedErrors['image-empty'], exit: 'refused' },
  'image-too-large': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The image is larger than any board’s memory, or than this one’s.',
  },
  'image-address-missing': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A raw image does not say where it belongs, and neither does the configuration.',
  },
  'image-digest': { remedy: 'give-up', exit: 'refused', means: 'The image’s own digest is wrong.' },
  'image-signature': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The image is not signed with the key that this board’s images must have.',
  },
  'image-outside-chip': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The image has bytes outside of the chip’s memory.',
  },
  'image-overwrites-bootloader': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The image would overwrite the board’s bootloader.',
  },
  'image-wrong-chip': { remedy: 'give-up', exit: 'refused', means: 'The image is for another chip.' },
  'payload-damaged': {
    remedy: 'retry',
    exit: 'disk',
    means: 'What is kept of a firmware for a board is damaged.',
    advice: 'check the disk of the state directory',
  },
  'backup-damaged': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'What is kept of a board’s former program is damaged.',
    advice: 'flash a file: agent mcu flash NAME FILE',
  },
  'payload-stale': { remedy: 'retry', exit: 'tryAgain', means: 'What is kept for a board is of another firmware.' },
  'board-silent': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The board does not answer.',
    advice: 'check power, cable, baud rate and reset setting, and that the chip has this bootloader',
  },
  'board-garbled': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'What the board answers makes no sense.',
    advice: 'check baud rate, ground and cable length',
  },
  'board-refused': { remedy: 'retry', exit: 'protocol', means: 'The board’s bootloader refuses a command.' },
  'board-unknown': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The chip, or its bootloader, is not known.',
    advice: 'check the protocol and the port of this target',
  },
  'board-changed': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'Another board answers than before.',
    advice: 'another board answers now: check the cables',
  },
  'board-protected': { remedy: 'give-up', exit: 'refused', means: 'The board’s memory is protected.' },
  'board-cannot': { remedy: 'give-up', exit: 'refused', means: 'The board’s bootloader cannot do what is needed.' },
  'board-mismatch': {
    remedy: 'retry',
    exit: 'disk',
    means: 'What was read back from the board is not what was written.',
    advice: 'the flash memory may be worn or write-protected',
  },
  'board-half-written': {
    remedy: 'give-up',
    exit: 'disk',
    means: 'The writing of a board was cut: until it is finished or undone, the board may run nothing.',
    advice: 'agent mcu flash NAME FILE; or agent mcu restore NAME, for what stood there before',
  },
  'mcuboot-key-unreadable': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The key for a board’s images cannot be used.',
    advice: 'mcuboot_key_file of the target names a public key in PEM form',
  },
}) {
  /** The same failure, with the board's name before the message. */
  on(board: string): McuError {
    return new McuError(this.code, `${board}: ${this.message}`, { advice: this.advice, cause: this });
  }
}

/** What may go wrong in a conversation with a board: its own errors, and those of its port. */
export type BoardError = McuError | SerialError;

export function isBoardError(error: unknown): error is BoardError {
  return error instanceof McuError || error instanceof SerialError;
}

export type McuCode = CodeOf<typeof McuError>;

/** An address in the form of memory maps. */
export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}
