import type { ModemStep } from '../protocol.ts';

const dischargeMs = 50;
/** From reset until the bootloader listens: start-up time of the crystal, and the bootloader's own. */
const bootMs = 100;

/** DTR, often with RTS, pulls RESET low through a capacitor at its falling edge. */
export const resetPulse: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>> = {
  dtr: [
    { dtr: false, rts: true, thenMs: dischargeMs },
    { dtr: true, rts: true, thenMs: bootMs },
  ],
  'dtr-rts': [
    { dtr: false, rts: false, thenMs: dischargeMs },
    { dtr: true, rts: true, thenMs: bootMs },
  ],
};
