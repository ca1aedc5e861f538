import type { SensorUnit } from '../../control/telemetry-protocol.ts';
import type { SourceSettings } from '../settings.ts';

/** The unit of a source; undefined: only whoever made the source knows it. Pure. */
export function unitOf(source: SourceSettings): SensorUnit | undefined {
  const { kind } = source;
  if (kind === 'hwmon') return byPrefix(hwmonUnits, source.input);
  if (kind === 'iio') return byPrefix(iioUnits, source.channel);
  if (kind === 'system') return bySuffix(source.metric);
  return kind === 'thermal' || kind === 'w1' ? '°C' : undefined;
}

/** As `hwmonSource` scales them. */
const hwmonUnits: readonly (readonly [string, SensorUnit])[] = [
  ['temp', '°C'],
  ['in', 'V'],
  ['curr', 'A'],
  ['power', 'W'],
  ['energy', 'J'],
  ['fan', 'rpm'],
  ['humidity', '%'],
];

/** The kernel's units after scale and offset (Documentation/ABI/testing/sysfs-bus-iio). */
const iioUnits: readonly (readonly [string, SensorUnit])[] = [
  ['in_temp', 'm°C'],
  ['in_voltage', 'mV'],
  ['in_current', 'mA'],
  ['in_power', 'mW'],
  ['in_energy', 'J'],
  ['in_humidityrelative', 'm%'],
  ['in_pressure', 'kPa'],
  ['in_illuminance', 'lx'],
];

function byPrefix(units: readonly (readonly [string, SensorUnit])[], name: string): SensorUnit | undefined {
  return units.find(([prefix]) => name.startsWith(prefix) && !/^[a-z]/.test(name.slice(prefix.length)))?.[1];
}

function bySuffix(metric: string): SensorUnit | undefined {
  if (metric.endsWith('_percent')) return '%';
  if (metric.endsWith('_bytes')) return 'B';
  if (metric === 'cpu_temperature') return '°C';
  return metric === 'uptime' ? 's' : undefined;
}
