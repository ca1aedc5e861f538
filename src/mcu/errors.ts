import { AgentError } from '../system/errors.ts';
import type { ExitKind, Remedy } from '../system/errors.ts';

/** An image cannot be read, or must not go to this board. Found before the board is touched. */
export type ImageCode =
  | 'image-malformed'
  | 'image-checksum'
  | 'image-truncated'
  | 'image-overlap'
  | 'image-empty'
  | 'image-too-large'
  | 'image-address-missing'
  | 'image-digest'
  | 'image-signature'
  | 'image-outside-chip'
  | 'image-overwrites-bootloader'
  | 'image-wrong-chip';

/** The port between the gateway and the board. */
export type PortCode = 'port-missing' | 'port-busy' | 'port-denied' | 'port-unplugged' | 'port-failed';

/** The board, or its bootloader. */
export type BoardCode =
  | 'board-silent'
  | 'board-garbled'
  | 'board-refused'
  | 'board-unknown'
  | 'board-changed'
  | 'board-protected'
  | 'board-cannot'
  | 'board-mismatch';

/** What is kept of a board in the state directory. */
export type PayloadCode = 'payload-damaged' | 'payload-stale' | 'backup-damaged';

export type McuCode = ImageCode | PortCode | BoardCode | PayloadCode;

interface Nature {
  readonly remedy: Remedy;
  readonly exit: ExitKind;
  readonly advice: string | undefined;
}

const refusedImage: Nature = { remedy: 'give-up', exit: 'refused', advice: undefined };

const natures: Readonly<Record<PortCode | BoardCode | PayloadCode, Nature>> = {
  'payload-damaged': { remedy: 'retry', exit: 'disk', advice: 'check the disk of the state directory' },
  'backup-damaged': { remedy: 'give-up', exit: 'disk', advice: 'flash a file: agent mcu flash NAME FILE' },
  'payload-stale': { remedy: 'retry', exit: 'tryAgain', advice: undefined },
  'port-missing': {
    remedy: 'retry',
    exit: 'disk',
    advice: 'check the cable and the port name; `ls /dev/serial/by-id`',
  },
  'port-busy': { remedy: 'retry', exit: 'disk', advice: 'another program holds the port; `fuser` names it' },
  'port-denied': { remedy: 'give-up', exit: 'disk', advice: 'give the agent the group of the port, often dialout' },
  'port-unplugged': { remedy: 'retry', exit: 'disk', advice: 'check the cable; the flash can simply be repeated' },
  'port-failed': { remedy: 'retry', exit: 'disk', advice: 'check the kernel log for the port' },
  'board-silent': {
    remedy: 'retry',
    exit: 'disk',
    advice: 'check power, cable, baud rate and reset setting, and that the chip has this bootloader',
  },
  'board-garbled': { remedy: 'retry', exit: 'protocol', advice: 'check baud rate, ground and cable length' },
  'board-refused': { remedy: 'retry', exit: 'protocol', advice: undefined },
  'board-unknown': { remedy: 'give-up', exit: 'refused', advice: 'check the protocol and the port of this target' },
  'board-changed': { remedy: 'give-up', exit: 'refused', advice: 'another board answers now: check the cables' },
  'board-protected': { remedy: 'give-up', exit: 'refused', advice: undefined },
  'board-cannot': { remedy: 'give-up', exit: 'refused', advice: undefined },
  'board-mismatch': { remedy: 'retry', exit: 'disk', advice: 'the flash memory may be worn or write-protected' },
};

function natureOf(code: McuCode): Nature {
  for (const [known, nature] of Object.entries(natures)) if (known === code) return nature;
  return refusedImage;
}

export interface McuDetail {
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

/** Everything that goes wrong with a microcontroller: its image, its port, itself. */
export class McuError extends AgentError {
  override readonly name = 'McuError';
  readonly mcuCode: McuCode;

  constructor(code: McuCode, message: string, detail: McuDetail = {}) {
    const nature = natureOf(code);
    // A missing address is the configuration's fault; everything else about an image is the image's.
    super({ code, message, ...nature, advice: detail.advice ?? nature.advice, cause: detail.cause });
    this.mcuCode = code;
  }

  /** The same failure, with the board's name before the message. */
  on(board: string): McuError {
    return new McuError(this.mcuCode, `${board}: ${this.message}`, { advice: this.advice, cause: this });
  }
}

/** An address as people read it in a memory map. */
export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}
