import { baseboard, chassis, system } from 'systeminformation';

/** What the firmware of the machine calls itself (DMI), best first; placeholders and empty texts included. */
export async function dmiSerialNumbers(): Promise<readonly string[]> {
  const parts = [await system(), await baseboard(), await chassis()];
  return parts.map(({ serial }) => serial);
}
