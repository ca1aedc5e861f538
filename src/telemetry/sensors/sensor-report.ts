import type { SensorReport, SensorUnit, SourceStats } from '../../control/telemetry-protocol.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import { withName } from '../../system/settings/described.ts';
import { scaled } from '../downsampling.ts';
import { isIgnored, partFor } from '../measurement.ts';
import { readingText } from '../reading-text.ts';
import type { MeasurementSettings, OutputSettings, SourceSettings } from '../settings.ts';
import type { Reading } from '../sources/source.ts';
import { sources } from '../sources/sources.ts';
import { unitOf, wholeUnit } from './unit.ts';

/** The figures that only the runner of a source has. */
export interface RunnerDetails {
  readonly lastReading: Reading;
  readonly perMinute: number | undefined;
  readonly lastErrorCode: string | undefined;
  readonly notice?: string | undefined;
}

/** The report of one source. Without figures, the source is not read. Pure. */
export function sensorReport(
  { name, source, everyMs, ignore, outputs }: MeasurementSettings,
  figures?: SourceStats & RunnerDetails,
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
    outputs: outputReports({ source, ignore, outputs }, figures?.lastReading),
    lastReading: readingText(figures?.lastReading),
    unit: unitOf(source),
  };
}

const unread = {
  state: undefined,
  readings: 0,
  failures: 0,
  dropped: 0,
  droppedFor: {},
  lastReadingAgeMs: undefined,
  perMinute: undefined,
  lastDrop: undefined,
  lastError: undefined,
  lastErrorCode: undefined,
  failingForMs: undefined,
  notice: undefined,
} as const;

export function modeOf(source: SourceSettings): 'polled' | 'pushed' {
  return withName(sources, source.kind).speaks(source) ? 'pushed' : 'polled';
}

/** Returns the values that the outputs of a source send of a reading. Pure. */
export function outputReports(
  { source, ignore, outputs }: Pick<MeasurementSettings, 'source' | 'ignore' | 'outputs'>,
  reading: Reading,
): SensorReport['outputs'] {
  return outputs.map((output) => {
    const part = partFor(output, reading);
    const isSent = part !== undefined && !isIgnored(part, ignore);
    return outputOf(output, unitOf(source), isSent ? scaled(part, output.reduction) : undefined);
  });
}

function outputOf(
  { to, pointer, reduction }: OutputSettings,
  unit: SensorUnit | undefined,
  value: unknown,
): SensorReport['outputs'][number] {
  const { scale = 1, offset = 0 } = reduction;
  const units = new Map([
    [1, unit],
    [0.001, wholeUnit(unit)],
  ]);
  return {
    kind: to.kind,
    id: to.kind === 'event' ? to.event : to.id,
    pointer,
    scale,
    offset,
    value: readingText(value),
    unit: pointer === '' ? units.get(scale) : undefined,
  };
}
