import type { OutputOf } from '../../operations.ts';
import type { SensorReport } from '../../telemetry-protocol.ts';
import { counted } from '../counted.ts';
import { duration } from '../time.ts';
import type { Row } from './row.ts';

/** One row for each sensor. */
export function sensorRows({ isRead, sensors }: OutputOf<'sensors'>): readonly Row[] {
  return sensors.map((sensor) => {
    const facts = isRead ? [describeLast(sensor), ...pace(sensor), ...troubles(sensor)] : [sensor.place];
    const text = [sensor.kind, ...facts].join('; ');
    return { label: sensor.name, paragraphs: [text], tone: sensor.lastError === undefined ? undefined : 'attention' };
  });
}

/** The rows of one sensor in detail. */
export function oneSensorRows(sensor: SensorReport, isRead: boolean): readonly Row[] {
  const { name, kind, place, mode, everyMs, outputs, readings, failures, dropped, lastDrop } = sensor;
  const speaks = mode === 'pushed' ? 'when it speaks' : `each ${shortDuration(everyMs ?? 0)}`;
  return [
    { label: 'Sensor', paragraphs: [name] },
    { label: 'Reads', paragraphs: [`${kind}: ${place}, ${speaks}`] },
    { label: 'Goes to', paragraphs: outputs.map(describeOutput) },
    { label: 'Last', paragraphs: isRead ? [describeLast(sensor)] : ['no daemon runs, so nothing is read'] },
    { label: 'Rate', paragraphs: pace(sensor) },
    {
      label: 'Since start',
      paragraphs: isRead ? [`${counted(readings, 'reading')}, ${counted(failures, 'failure')}`] : [],
    },
    {
      label: 'Dropped',
      paragraphs: dropped === 0 ? [] : [`${dropped}, the last because of ${lastDrop ?? 'what is not known'}`],
    },
    { label: 'Failing', paragraphs: failing(sensor), tone: 'attention' },
  ];
}

/** Says what a sensor waits for that cannot be asked, since it sends by itself. */
export function describeWait({ name, kind, place }: SensorReport): string {
  return `${name} cannot be asked: it waits for ${waits.get(kind) ?? 'what comes'}, at ${place}.`;
}

const waits: ReadonlyMap<string, string> = new Map([
  ['mqtt', 'messages of a broker'],
  ['serial', 'lines from a serial port'],
  ['exec', 'lines that a program prints'],
]);

export function withUnit(reading: string, unit: SensorReport['unit']): string {
  return unit === undefined ? reading : `${reading} ${unit}`;
}

function describeLast({ lastReading, lastReadingAgeMs, unit }: SensorReport): string {
  if (lastReading === undefined || lastReadingAgeMs === undefined) return 'no reading yet';
  return `${withUnit(lastReading, unit)}, ${shortDuration(lastReadingAgeMs)} ago`;
}

function pace({ perMinute }: SensorReport): readonly string[] {
  if (perMinute === undefined) return [];
  return [perMinute < 1 ? `${(perMinute * 60).toFixed(1)} an hour` : `${perMinute.toFixed(1)} a minute`];
}

function troubles(sensor: SensorReport): readonly string[] {
  const { dropped } = sensor;
  return [...(dropped === 0 ? [] : [`${dropped} dropped`]), ...failing(sensor).map((text) => `fails ${text}`)];
}

function failing({ lastError, lastErrorCode, failingForMs }: SensorReport): readonly string[] {
  if (lastError === undefined) return [];
  const code = lastErrorCode === undefined ? '' : ` (${lastErrorCode})`;
  return [`for ${shortDuration(failingForMs ?? 0)}: ${lastError}${code}`];
}

function describeOutput({ kind, id, pointer, scale, offset }: SensorReport['outputs'][number]): string {
  const part = pointer === '' ? '' : `, ${pointer}`;
  const scaled = scale === 1 ? '' : ` × ${scale}`;
  const moved = offset === 0 ? '' : ` ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}`;
  return `${kind} ${id}${part}${scaled}${moved}`;
}

function shortDuration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : duration(ms);
}
