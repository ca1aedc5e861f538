import type { SensorUnit } from '../../control/telemetry-protocol.ts';
import { withoutNoise } from '../../system/json-value.ts';
import type { SourceSettings } from '../settings.ts';
import { sourceFailed } from '../sources/source.ts';

/** Returns the unit of a source, or undefined if only the operator knows it. Pure. */
export function unitOf(source: SourceSettings): SensorUnit | undefined {
  const { kind } = source;
  if (kind === 'hwmon') return hwmonUnits.get(/^[a-z]+(?=\d)/.exec(source.input)?.[0] ?? '');
  if (kind === 'iio') return iioUnits.get(/^in_([a-z]+)(?!.*_raw$)/.exec(source.channel)?.[1] ?? '');
  if (kind === 'system') return bySuffix(source.metric);
  return kind === 'thermal' || kind === 'w1' ? '°C' : undefined;
}

/** As `hwmonSource` scales them. */
const hwmonUnits: ReadonlyMap<string, SensorUnit> = new Map([
  ['temp', '°C'],
  ['in', 'V'],
  ['curr', 'A'],
  ['power', 'W'],
  ['energy', 'J'],
  ['fan', 'rpm'],
  ['humidity', '%'],
]);

/** The kernel's units after scale and offset (Documentation/ABI/testing/sysfs-bus-iio). */
const iioUnits: ReadonlyMap<string, SensorUnit> = new Map([
  ['temp', 'm°C'],
  ['voltage', 'mV'],
  ['altvoltage', 'mV'],
  ['current', 'mA'],
  ['power', 'mW'],
  ['energy', 'J'],
  ['humidityrelative', 'm%'],
  ['pressure', 'kPa'],
  ['illuminance', 'lx'],
  ['accel', 'm/s²'],
  ['gravity', 'm/s²'],
  ['anglvel', 'rad/s'],
  ['angl', 'rad'],
  ['incli', '°'],
  ['magn', 'G'],
  ['resistance', 'Ω'],
  ['capacitance', 'nF'],
  ['concentration', '%'],
  ['massconcentration', 'µg/m³'],
  ['distance', 'm'],
]);

const wholeUnits: Readonly<Partial<Record<SensorUnit, SensorUnit>>> = {
  'm°C': '°C',
  mV: 'V',
  mA: 'A',
  mW: 'W',
  'm%': '%',
};

/** Returns °C for m°C, or undefined for a unit that does not count thousandths. */
export function wholeUnit(unit: SensorUnit | undefined): SensorUnit | undefined {
  return unit && wholeUnits[unit];
}

/**
 * The limits of measurements. Drivers show values beyond them for an open input, or after an overflow. A chip stays between
 * -100 and 300 °C; thermocouples are IIO devices.
 */
const possible: ReadonlyMap<SensorUnit, readonly [number, number]> = new Map([
  ['°C', [-100, 300]],
  ['m°C', [-273_150, 3_000_000]],
  ['V', [-100_000, 100_000]],
  ['A', [-100_000, 100_000]],
  ['rpm', [0, 200_000]],
  ['%', [-10, 110]],
  ['m%', [-10_000, 110_000]],
]);

/**
 * The speed of a fan that is not there: 16 bits of ones. Sources: `FAN_NOT_PRESENT` in thinkpad_acpi.c (commit a10d50983f7b
 * of Linux; the driver hides only a second fan that shows it at its start), `EC_FAN_SPEED_NOT_PRESENT` in
 * cros_ec_commands.h, and openbmc/openbmc#1456 (MAX31785 without power).
 */
const NO_FAN_RPM = 65_535;

/** Returns the value without floating noise, or throws TelemetryError if no sensor can have measured it. */
export function requirePossible(path: string, value: number, unit: SensorUnit | undefined): number {
  if (unit === 'rpm' && value === NO_FAN_RPM) throw sourceFailed(path, `${value} rpm is the code for a missing fan`);
  const [min, max] = (unit && possible.get(unit)) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  if (value >= min && value <= max) return withoutNoise(value);
  throw sourceFailed(path, `${value} ${unit} is not a measurement: it is outside ${min} to ${max} ${unit}`);
}

function bySuffix(metric: string): SensorUnit | undefined {
  if (metric.endsWith('_percent')) return '%';
  if (metric.endsWith('_bytes')) return 'B';
  if (metric === 'cpu_temperature') return '°C';
  return metric === 'uptime' ? 's' : undefined;
}
