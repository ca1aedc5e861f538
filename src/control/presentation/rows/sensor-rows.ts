import type { OutputOf } from '../../operations.ts';
import type { SensorReport } from '../../telemetry-protocol.ts';
import { pluralize } from '../counted.ts';
import { formatDuration } from '../time.ts';
import type { Row } from './row.ts';

export function sensorRows({ isLive, sensors }: OutputOf<'sensors'>): readonly Row[] {
  return sensors.map((sensor) => {
    const facts = isLive
      ? [describeLast(sensor), ...pace(sensor), ...troubles(sensor), ...notes(sensor)]
      : [sensor.place];
    const text = [sensor.kind, ...facts].join('; ');
    return { label: sensor.name, paragraphs: [text], tone: isTroubled(sensor) ? 'attention' : undefined };
  });
}

/** The rows of one sensor in detail. */
export function oneSensorRows(sensor: SensorReport, isRead: boolean): readonly Row[] {
  const { name, kind, place, mode, everyMs, outputs, readings, failures } = sensor;
  const speaks = mode === 'pushed' ? 'pushed by the source' : `each ${shortDuration(everyMs ?? 0)}`;
  return [
    { label: 'Sensor', paragraphs: [name] },
    { label: 'Source', paragraphs: [`${kind}: ${place}, ${speaks}`] },
    { label: 'Outputs', paragraphs: outputs.map(describeOutput) },
    { label: 'Last reading', paragraphs: isRead ? [describeLast(sensor)] : ['the daemon is not running'] },
    { label: 'Rate', paragraphs: pace(sensor) },
    {
      label: 'Since start',
      paragraphs: isRead ? [`${pluralize(readings, 'reading')}, ${pluralize(failures, 'failure')}`] : [],
    },
    { label: 'Dropped', paragraphs: drops(sensor, '') },
    { label: 'Failing', paragraphs: failing(sensor), tone: 'attention' },
    { label: 'Notice', paragraphs: notes(sensor), tone: 'attention' },
  ];
}

/** Describes a push source, which cannot be read on request. */
export function describeWait({ name, kind, place }: SensorReport): string {
  return `${name} is a push source and cannot be read on request: it waits for ${waits.get(kind) ?? 'values'} at ${place}.`;
}

const waits: ReadonlyMap<string, string> = new Map([
  ['mqtt', 'messages of a broker'],
  ['serial', 'lines from a serial port'],
  ['exec', 'lines that a program prints'],
]);

/** Returns a reading as it is sent, followed by the raw reading if that differs. */
export function describeReading({ lastReading, unit, outputs }: Read): string {
  const read = withUnit(lastReading, unit);
  const [only, ...others] = outputs;
  if (only === undefined) return read;
  const told = (output: Output): string => withUnit(output.value, output.unit);
  const sent = others.length === 0 ? told(only) : outputs.map((one) => `${one.id} ${told(one)}`).join(', ');
  return sent === read ? sent : `${sent} (read ${read})`;
}

type Output = SensorReport['outputs'][number];
type Read = Pick<SensorReport, 'lastReading' | 'unit' | 'outputs'>;

function withUnit(reading: string | undefined, unit: SensorReport['unit']): string {
  if (reading === undefined) return 'nothing';
  return unit === undefined ? reading : `${reading} ${unit}`;
}

/** True if a sensor fails, or delivers only unusable values. */
export function isTroubled({ lastError, state }: Pick<SensorReport, 'lastError' | 'state'>): boolean {
  return lastError !== undefined || state === 'delivering';
}

function describeLast(sensor: SensorReport): string {
  const { lastReading, lastReadingAgeMs } = sensor;
  const isRead = lastReading !== undefined && lastReadingAgeMs !== undefined;
  if (!isRead) return silence(sensor) ?? 'no reading yet';
  const last = `${describeReading(sensor)}, ${shortDuration(lastReadingAgeMs)} ago`;
  return silence(sensor) === undefined ? last : `${silence(sensor)}; the last: ${last}`;
}

/** Returns how long nothing has arrived from a source that is connected, or undefined. */
export function silence({ state, silentForMs }: Pick<SensorReport, 'state' | 'silentForMs'>): string | undefined {
  if (state !== 'connected') return undefined;
  return `connected, no reading ${silentForMs === undefined ? 'yet' : `for ${shortDuration(silentForMs)}`}`;
}

function notes({ notice }: SensorReport): readonly string[] {
  return notice === undefined ? [] : [notice];
}

function pace({ perMinute }: SensorReport): readonly string[] {
  if (perMinute === undefined) return [];
  return [perMinute < 1 ? `${(perMinute * 60).toFixed(1)} an hour` : `${perMinute.toFixed(1)} a minute`];
}

function troubles(sensor: SensorReport): readonly string[] {
  return [...drops(sensor, ' dropped'), ...failing(sensor).map((text) => `fails ${text}`)];
}

function drops({ dropped, lastDrop }: SensorReport, verb: string): readonly string[] {
  return dropped === 0 ? [] : [`${dropped}${verb}, the last: ${lastDrop ?? 'unknown'}`];
}

function failing({ state, lastError, lastErrorCode, failingForMs }: SensorReport): readonly string[] {
  const since = `for ${shortDuration(failingForMs ?? 0)}`;
  if (state === 'delivering') return [`${since}: no usable reading`];
  if (lastError === undefined) return [];
  const code = lastErrorCode === undefined ? '' : ` (${lastErrorCode})`;
  return [`${since}: ${lastError}${code}`];
}

function describeOutput({ kind, id, pointer, scale, offset }: Output): string {
  const part = pointer === '' ? '' : `, ${pointer}`;
  const scaled = scale === 1 ? '' : ` × ${scale}`;
  const moved = offset === 0 ? '' : ` ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}`;
  return `${kind} ${id}${part}${scaled}${moved}`;
}

function shortDuration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : formatDuration(ms);
}
