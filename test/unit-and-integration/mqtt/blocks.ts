import fc from 'fast-check';

/** Bytes cut into blocks, empty ones among them. */
export function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.byteLength + 1)), bytes.byteLength].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

export const anyPlaces = fc.array(fc.nat(), { maxLength: 12 });
