import type { MeasurementSettings, OutputSettings, SourceSettings } from '../../config/telemetry-config.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import type { SourceFigures } from '../source-runner.ts';
import type { Reading } from '../sources/source.ts';
import { unitOf } from './unit.ts';
import type { SensorUnit } from './unit.ts';

export interface SensorReport {
  readonly name: string;
  readonly kind: SourceSettings['kind'];
  readonly mode: 'polled' | 'pushed';
  /** What is read, without secrets: a device, a file, a program, an address. */
  readonly place: string;
  readonly everyMs: number | undefined;
  readonly outputs: readonly SensorOutput[];
  readonly readings: number;
  readonly failures: number;
  readonly dropped: number;
  /** The begin of it, as JSON; undefined: there was none. */
  readonly lastReading: string | undefined;
  readonly lastReadingAgeMs: number | undefined;
  readonly unit: SensorUnit | undefined;
  readonly perMinute: number | undefined;
  readonly lastDrop: string | undefined;
  /** Since the last reading; undefined: it works. */
  readonly lastError: string | undefined;
  readonly lastErrorCode: string | undefined;
  readonly failingForMs: number | undefined;
}

export interface SensorOutput {
  readonly kind: 'event' | 'property';
  readonly id: string;
  readonly pointer: string;
  readonly scale: number;
  readonly offset: number;
}

/** What only the runner of a source knows. */
export interface RunnerDetails {
  readonly lastReading: Reading;
  readonly perMinute: number | undefined;
  readonly lastErrorCode: string | undefined;
  readonly failingForMs: number | undefined;
}

const MAX_READING_LENGTH = 200;

/** One source of the configuration, and how it fares; without figures nobody reads it. Pure. */
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
    place: maskAddresses(placeOf(source)),
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

/** The begin of it, as JSON; undefined: there is none. */
export function readingText(reading: Reading): string | undefined {
  const text = JSON.stringify(reading) as string | undefined;
  if (text === undefined || text.length <= MAX_READING_LENGTH) return text;
  return `${text.slice(0, MAX_READING_LENGTH).toWellFormed()}…`;
}

export function modeOf(source: SourceSettings): 'polled' | 'pushed' {
  const isPushed = source.kind === 'mqtt' || source.kind === 'serial' || (source.kind === 'exec' && source.stream);
  return isPushed ? 'pushed' : 'polled';
}

/** Of a program no arguments: they may be secret. */
function placeOf(source: SourceSettings): string {
  if ('register' in source) {
    const line = source.kind === 'modbus-tcp' ? `${source.host}:${source.port}` : source.path;
    return `${line} ${registerText(source.register)}`;
  }
  if ('path' in source) return source.path;
  switch (source.kind) {
    case 'exec':
      return source.command[0];
    case 'mqtt':
      return `${source.url} ${source.topic}`;
    case 'hwmon':
      return `${source.chip} ${source.input}`;
    case 'thermal':
      return source.zone;
    case 'iio':
      return `${source.device} ${source.channel}`;
    case 'w1':
      return source.device;
    case 'gpio':
      return `${source.chip} line ${source.line}`;
    case 'system':
      return source.metric;
  }
}

function registerText({ unit, table, address }: { unit: number; table: string; address: number }): string {
  return `unit ${unit} ${table} ${address}`;
}

function outputOf({ to, pointer, reduction: { scale, offset } }: OutputSettings): SensorOutput {
  return { kind: to.kind, id: to.kind === 'event' ? to.event : to.id, pointer, scale, offset };
}
