import { elfMachines } from '../chip.ts';
import type { Chip } from '../chip.ts';
import { McuError } from '../errors.ts';

export interface AvrSettings {
  /** The size of the boot section at the end of the flash memory, if it is not the usual one of this bootloader. */
  readonly bootloaderBytes?: number | undefined;
}

export interface AvrChip extends Chip {
  readonly pageBytes: number;
}

interface Model {
  readonly signature: string;
  readonly name: string;
  readonly flashKib: number;
  readonly pageBytes: number;
}

/** Source: the data sheets, "Signature Bytes" and "Page Size". */
const models: readonly Model[] = [
  { signature: '1e9307', name: 'ATmega8', flashKib: 8, pageBytes: 64 },
  { signature: '1e930a', name: 'ATmega88', flashKib: 8, pageBytes: 64 },
  { signature: '1e930f', name: 'ATmega88P', flashKib: 8, pageBytes: 64 },
  { signature: '1e9406', name: 'ATmega168', flashKib: 16, pageBytes: 128 },
  { signature: '1e940b', name: 'ATmega168P', flashKib: 16, pageBytes: 128 },
  { signature: '1e9514', name: 'ATmega328', flashKib: 32, pageBytes: 128 },
  { signature: '1e950f', name: 'ATmega328P', flashKib: 32, pageBytes: 128 },
  { signature: '1e9516', name: 'ATmega328PB', flashKib: 32, pageBytes: 128 },
  { signature: '1e9502', name: 'ATmega32', flashKib: 32, pageBytes: 128 },
  { signature: '1e960a', name: 'ATmega644P', flashKib: 64, pageBytes: 256 },
  { signature: '1e9609', name: 'ATmega644', flashKib: 64, pageBytes: 256 },
  { signature: '1e9703', name: 'ATmega1280', flashKib: 128, pageBytes: 256 },
  { signature: '1e9705', name: 'ATmega1284P', flashKib: 128, pageBytes: 256 },
  { signature: '1e9801', name: 'ATmega2560', flashKib: 256, pageBytes: 256 },
];

/** A page is erased and then written; the data sheets state at most 4.5 ms for each. This is generously twice that. */
export const pageWorkMs = 18;

/** `rjmp .`: a chip that starts here waits for its bootloader instead of running half a program. */
export const parkedPage = Uint8Array.of(0xff, 0xcf);

export function avrChip(signature: Uint8Array, usualBootloaderBytes: number, settings: AvrSettings): AvrChip {
  const id = Buffer.from(signature).toString('hex');
  const model = models.find((candidate) => candidate.signature === id);
  if (model === undefined) throw new McuError('board-unknown', `no AVR with the signature ${id} is known`);
  const end = model.flashKib * 1024;
  const bootloaderBytes = settings.bootloaderBytes ?? usualBootloaderBytes;
  return {
    name: model.name,
    id,
    elfMachine: elfMachines.avr,
    uf2Families: [],
    flash: { start: 0, end },
    application: { start: 0, end: end - bootloaderBytes },
    pageBytes: model.pageBytes,
  };
}
