import type { Bootloader } from '../../update/ports.ts';
import { noSlotsError } from '../doctor/preconditions.ts';

/**
 * The bootloader of a gateway without slots: the running system is the only one. Its boards are updated nevertheless.
 */
export const singleSystem: Bootloader = {
  trialRebootArgument: undefined,
  bootedSlot: async () => 'A',
  onTrial: async () => false,
  canary: async () => {},
  commit: async () => {},
  markUnbootable: async () => {
    throw noSlotsError();
  },
  tryOnce: async () => {
    throw noSlotsError();
  },
  inspect: async () => {
    const only = { bootable: true, detail: 'the only system' };
    const slots = { A: only, B: { bootable: false, detail: 'there is none' } };
    return { primary: 'A', slots, onTrial: { A: false, B: false }, committed: { A: true, B: false } };
  },
};
