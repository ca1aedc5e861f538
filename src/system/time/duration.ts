/** A duration with units in falling order, each at most once: `1h30m`, `10m`, `500ms`. */
export const durationPattern = /^(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?$/;

const UNIT_MS = [86_400_000, 3_600_000, 60_000, 1_000, 1] as const;

/** Returns the milliseconds of a duration such as `1h30m`, or undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  const match = durationPattern.exec(text);
  if (match === null) return undefined;
  return UNIT_MS.reduce((sum, unitMs, index) => sum + Number(match[index + 1] ?? 0) * unitMs, 0);
}
