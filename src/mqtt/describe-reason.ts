import { ReasonCodes } from 'mqtt';

/** Returns the meaning of a reason code, as MQTT calls it, with its number. */
export function describeReason(reason: number): string {
  const phrases: Readonly<Record<number, string>> = ReasonCodes;
  return `${phrases[reason] ?? 'unknown reason'} (reason ${reason})`;
}
