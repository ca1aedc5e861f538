import { abortable } from '../../system/abortable.ts';
import { withName } from '../../system/settings/described.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import type { MeasurementSettings } from '../settings.ts';
import type { Reading, Source } from '../sources/source.ts';
import { sources } from '../sources/sources.ts';

/** Reads a source once, now, for a person. Nothing is counted, kept or sent. Throws AgentError with advice. */
export async function trySource(
  source: Source,
  { name, timeoutMs, source: settings }: Pick<MeasurementSettings, 'name' | 'timeoutMs' | 'source'>,
  signal: AbortSignal,
): Promise<Reading> {
  if (source.kind === 'pushed')
    throw new TelemetryError('source-not-asked', `${name} speaks by itself, and cannot be asked`);
  const late = (): Error => new TelemetryError('source-timeout', `${name}: no reading within ${timeoutMs} ms`);
  using deadline = new Deadline(timeoutMs, late, signal);
  try {
    return await abortable(source.read(deadline.signal), deadline.signal);
  } catch (error) {
    if (!(error instanceof TelemetryError) || error.code !== 'source-failed') throw error;
    throw new TelemetryError(error.code, error.message, error, withName(sources, settings.kind).advice(settings));
  }
}
