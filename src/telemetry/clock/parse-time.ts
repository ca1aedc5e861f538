import { TelemetryError } from '../errors.ts';

const EARLIEST_MS = Date.UTC(2000, 0, 1);
const LATEST_MS = Date.UTC(2100, 0, 1);

/** The milliseconds of an ISO 8601 time in UTC. Throws TelemetryError `time-invalid`. */
export function parseTime(at: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z$/.test(at) ? Date.parse(at) : Number.NaN;
  if (ms >= EARLIEST_MS && ms < LATEST_MS) return ms;
  throw new TelemetryError('time-invalid', `“${at.slice(0, 40)}” is not a time that can be sent`);
}
