/** No gateway runs this program before it was written. */
const EARLIEST_MS = Date.UTC(2026, 10, 1);

/** What a broken real-time clock shows more often than a gateway lives to see. */
const LATEST_MS = Date.UTC(2100, 0, 1);

/** False where the wall clock cannot be right: before it was set for the first time, or after its battery died. */
export function isPlausible(nowMs: number): boolean {
  return nowMs >= EARLIEST_MS && nowMs < LATEST_MS;
}
