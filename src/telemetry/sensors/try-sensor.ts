import { withName } from '../../system/settings/described.ts';
import { TelemetryError } from '../errors.ts';
import type { MeasurementSettings } from '../settings.ts';
import type { Reading, Source } from '../sources/source.ts';
import { sources } from '../sources/sources.ts';

/** Reads a source once, now, for an operator. Nothing is counted, kept or sent. Throws AgentError with advice. */
export async function trySource(
  source: Source,
  { name, source: settings }: Pick<MeasurementSettings, 'name' | 'source'>,
  signal: AbortSignal,
): Promise<Reading> {
  if (source.kind === 'pushed')
    throw new TelemetryError('source-not-pollable', `${name} is a push source, and cannot be polled`);
  try {
    return await source.read(signal);
  } catch (error) {
    if (!(error instanceof TelemetryError) || error.code !== 'source-failed') throw error;
    throw new TelemetryError(error.code, error.message, error, withName(sources, settings.kind).advice(settings));
  }
}
