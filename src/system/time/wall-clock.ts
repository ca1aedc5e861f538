/** This program was written after this time, so no right clock shows an earlier one. */
const EARLIEST_MS = Date.UTC(2026, 10, 1);

/** Broken real-time clocks show later times; no gateway lives that long. */
const LATEST_MS = Date.UTC(2100, 0, 1);

/** False if the wall clock cannot be right: before it was first set, or after its battery died. */
export function isPlausible(nowMs: number): boolean {
  return nowMs >= EARLIEST_MS && nowMs < LATEST_MS;
}
