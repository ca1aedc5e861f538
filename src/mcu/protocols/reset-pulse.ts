import type { ModemStep, Protocol } from '../protocol.ts';

const dischargeMs = 50;
/** The time from the reset until the bootloader listens: start-up of the crystal and of the bootloader. */
const bootMs = 100;

/** The falling edge of DTR, often with RTS, pulls RESET low through a capacitor. */
const resetPulse: Readonly<Record<'dtr' | 'dtr-rts', readonly ModemStep[]>> = {
  dtr: [
    { dtr: false, rts: true, thenMs: dischargeMs },
    { dtr: true, rts: true, thenMs: bootMs },
  ],
  'dtr-rts': [
    { dtr: false, rts: false, thenMs: dischargeMs },
    { dtr: true, rts: true, thenMs: bootMs },
  ],
};

/** Returns the protocol of a bootloader that runs after each reset, and then starts the application. */
export function startedByReset(name: string, connect: Protocol['connect']): Protocol {
  return { name, parity: 'none', enter: resetPulse, leave: { dtr: [], 'dtr-rts': [] }, connect };
}
