import { SerialError } from '../serial/errors.ts';
import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

const fetchAgain = 'copy or download the file again; if it fails again, build the release again';

/**
 * Everything that can go wrong with a board: with its image (found before the board is touched), its port, or itself.
 */
export class McuError extends defineErrors('McuError', {
  'image-unknown': permanent.refused(
    'The file is not an image for a board.',
    'give an Intel HEX, S-record, ELF, UF2, MCUboot or ESP image, or a raw binary: its name ends in .bin, or its target has format = "raw"',
  ),
  'image-unsupported': permanent.refused(
    'The image is of a kind that the agent cannot check or write.',
    'build the image in a format that the protocol of this board accepts',
  ),
  'image-malformed': permanent.refused('The file is not an image of the format that it appears to have.', fetchAgain),
  'image-checksum': permanent.refused('A checksum inside the image is wrong.', fetchAgain),
  'image-truncated': permanent.refused('The image is truncated.', fetchAgain),
  'image-overlap': permanent.refused(
    'Two parts of the image claim the same address.',
    'correct the linker script: two sections have the same address',
  ),
  'image-empty': { ...sharedErrors['image-empty'], exit: 'refused' },
  'image-too-large': permanent.refused(
    'The image is larger than any board’s memory, or than this one’s.',
    'reduce the size of the image, or check that it is for this board',
  ),
  'image-address-missing': permanent.refused(
    'A raw image has no address, and the configuration sets none.',
    'set the address in [targets], or use an image with addresses, such as Intel HEX',
  ),
  'image-digest': permanent.refused('The image’s own digest is wrong.', fetchAgain),
  'image-signature': permanent.refused(
    'The image is not signed with the key that this board’s images must have.',
    'sign the image with the key in [targets]',
  ),
  'image-outside-chip': permanent.refused(
    'The image has bytes outside of the chip’s memory.',
    'check that the image and the configured chip are for this board',
  ),
  'image-overwrites-bootloader': permanent.refused(
    'The image would overwrite the board’s bootloader.',
    'link the image for the smaller memory; if the boot section of an AVR is smaller (fuse bits BOOTSZ), set bootloader_bytes of the target',
  ),
  'image-wrong-chip': permanent.refused(
    'The image is for another chip.',
    'flash an image for this chip; agent mcu probe BOARD shows the chip',
  ),
  'payload-damaged': transient.disk('The saved image for a board is damaged.', 'check the disk of the state directory'),
  'backup-damaged': permanent.disk(
    'The backup of a board’s previous program is damaged.',
    'flash a file: agent mcu flash NAME FILE',
  ),
  'payload-stale': transient.tryAgain(
    'The saved data of a board belongs to another release.',
    'nothing: the agent downloads it again',
  ),
  'board-timeout': transient.disk(
    'The board is not responding.',
    'check power, cable, baud rate and reset setting, and that the chip has this bootloader',
  ),
  'board-bad-response': transient.protocol(
    'The board sends invalid responses.',
    'check baud rate, ground and cable length',
  ),
  'board-refused': transient.protocol(
    'The board’s bootloader refuses a command.',
    'check the protection of the board, and flash_bytes if the chip has less memory than agent mcu probe shows',
  ),
  'board-unknown': permanent.refused(
    'The chip, or its bootloader, is unknown.',
    'docs/boards.md lists the supported chips; if yours is among them, check the protocol and the port of this target',
  ),
  'board-port-shared': permanent.configuration(
    'The ports of two boards are the same device, so that each would receive the image of the other.',
    'give each board in [targets] its own port; `ls -l /dev/serial/by-path` lists them',
  ),
  'board-changed': permanent.refused('A different board responds than before.', 'check the cables'),
  'board-protected': permanent.refused(
    'The board’s memory is protected.',
    'remove the protection with the tool of the manufacturer, which erases the chip',
  ),
  'board-unsupported': permanent.refused(
    'The board’s bootloader lacks a needed function.',
    'update the bootloader of the board; agent mcu probe BOARD shows its capabilities',
  ),
  'board-mismatch': transient.disk(
    'The board reads back differently from the written data.',
    'the flash memory may be worn or write-protected',
  ),
  'board-runs-other': permanent.refused(
    'The board holds the image but runs another one.',
    'check that the bootloader accepts the image: its key, version and hardware',
  ),
  'board-half-written': permanent.disk(
    'Writing the board was interrupted: until the write is finished or undone, the board may run nothing.',
    'agent mcu flash NAME FILE; or, for the previous program: agent mcu restore NAME',
  ),
  'board-not-restorable': permanent.disk(
    'No backup of the board’s previous program exists.',
    'flash a file: agent mcu flash NAME FILE',
  ),
  'mcuboot-key-unreadable': permanent.configuration(
    'The key for a board’s images cannot be used.',
    'set mcuboot_key_file of the target to a public key in PEM form',
  ),
}) {
  /** The same failure, with the board's name before the message. */
  on(board: string): McuError {
    return new McuError(this.code, `${board}: ${this.message}`, { advice: this.advice, cause: this });
  }
}

/** The errors of a conversation with a board: its own errors, and those from its port. */
export type BoardError = McuError | SerialError;

export function isBoardError(error: unknown): error is BoardError {
  return error instanceof McuError || error instanceof SerialError;
}

/** An address in the form of memory maps. */
export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}
