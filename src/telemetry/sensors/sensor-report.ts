import type { SensorReport, SourceFigures } from '../../control/telemetry-protocol.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import { withName } from '../../system/settings/described.ts';
import type { MeasurementSettings, OutputSettings, SourceSettings } from '../settings.ts';
import type { Reading } from '../sources/source.ts';
import { sources } from '../sources/sources.ts';
import { unitOf } from './unit.ts';

/** What only the runner of a source knows. */
export interface RunnerDetails {
  readonly lastReading: Reading;
  readonly perMinute: number | undefined;
  readonly lastErrorCode: string | undefined;
  readonly failingForMs: number | undefined;
}

const MAX_READING_LENGTH = 200;

/** The report of one source. Without figures, nobody reads the source. Pure. */
export function sensorReport(
  { name, source, everyMs, outputs }: MeasurementSettings,
  figures?: SourceFigures & RunnerDetails,
): SensorReport {
  const mode = modeOf(source);
  return {
    ...unread,
    ...figures,
    name,
    kind: source.kind,
    mode,
    place: maskAddresses(withName(sources, source.kind).place(source)),
    everyMs: mode === 'polled' ? everyMs : undefined,
    outputs: outputs.map(outputOf),
    lastReading: readingText(figures?.lastReading),
    unit: unitOf(source),
  };
}

const unread = {
  readings: 0,
  failures: 0,
  dropped: 0,
  lastReadingAgeMs: undefined,
  perMinute: undefined,
  lastDrop: undefined,
  lastError: undefined,
  lastErrorCode: undefined,
  failingForMs: undefined,
} as const;

/** Returns the beginning of a reading as JSON, or NaN or Infinity, or undefined if there is no reading. */
export function readingText(reading: Reading): string | undefined {
  const text = typeof reading === 'number' ? String(reading) : (JSON.stringify(reading) as string | undefined);
  if (text === undefined || text.length <= MAX_READING_LENGTH) return text;
  return `${text.slice(0, MAX_READING_LENGTH).toWellFormed()}…`;
}

export function modeOf(source: SourceSettings): 'polled' | 'pushed' {
  return withName(sources, source.kind).speaks(source) ? 'pushed' : 'polled';
}

function outputOf({ to, pointer, reduction: { scale, offset } }: OutputSettings): SensorReport['outputs'][number] {
  return { kind: to.kind, id: to.kind === 'event' ? to.event : to.id, pointer, scale, offset };
}
