import type { ModemStep } from '../protocol.ts';

const dischargeMs = 50;
/** The time from the reset until the bootloader listens: start-up of the crystal and of the bootloader. */
const bootMs = 100;

/** The falling edge of DTR, often with RTS, pulls RESET low through a capacitor. */
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
