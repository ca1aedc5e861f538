const pattern = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)Z)?$/i;

/**
 * Returns the milliseconds of a time in UTC, or of the beginning of a day, in the notation of RFC 3339. Returns
 * undefined for any other text.
 */
export function parseUtcTime(text: string | undefined): number | undefined {
  const [, day, time = '00:00'] = pattern.exec(text ?? '') ?? [];
  if (day === undefined) return undefined;
  const ms = Date.parse(`${day}T${time}Z`);
  const isReal = Number.isFinite(ms) && new Date(ms).toISOString().startsWith(day);
  return isReal ? ms : undefined;
}
