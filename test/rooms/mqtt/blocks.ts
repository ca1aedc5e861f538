import fc from 'fast-check';

import { Payload } from '../../../src/mqtt/payload.ts';

/** A text cut into blocks, empty ones among them. */
export function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.byteLength + 1)), bytes.byteLength].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

export function payloadOf(text: string | Uint8Array, places: readonly number[] = []): Payload {
  return new Payload(cut(Buffer.from(text), places));
}

export const anyPlaces = fc.array(fc.nat(), { maxLength: 12 });
