import { baseboard, chassis, system } from 'systeminformation/lib/system.js';

/** The serial numbers that the machine's firmware states (DMI), best first; placeholders and empty texts included. */
export async function dmiSerialNumbers(): Promise<readonly string[]> {
  const parts = [await system(), await baseboard(), await chassis()];
  return parts.map(({ serial }) => serial);
}
