import type { MeasurementSettings, SourceSettings } from '../../config/telemetry-config.ts';
import { abortable } from '../../system/abortable.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import type { Reading, Source } from '../sources/source.ts';

/** Reads a source once, now, for a person: nothing is counted, kept or sent. Throws AgentError, with what to do. */
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
    throw new TelemetryError(error.code, error.message, error, adviceFor(settings));
  }
}

/** Undefined: what is always advised. */
function adviceFor(source: SourceSettings): string | undefined {
  if (source.kind === 'modbus-tcp') {
    return `check the device, its unit and the register; agent sensors scan modbus ${source.host}:${source.port} asks all units`;
  }
  if (source.kind === 'modbus-rtu') {
    const { path, baud, parity } = source;
    return `check the wires, its unit and the register; agent sensors scan modbus ${path} --baud ${baud} --parity ${parity} asks all units`;
  }
  return advices[source.kind];
}

const advices: Readonly<Partial<Record<SourceSettings['kind'], string>>> = {
  hwmon: 'agent sensors scan hwmon shows what there is',
  iio: 'agent sensors scan iio shows what there is',
  w1: 'agent sensors scan w1 shows what there is',
  thermal: 'cat /sys/class/thermal/thermal_zone*/type shows what there is',
  exec: 'start the program by hand, as the user that the configuration names for it',
  file: 'check that the file is there, and that whoever writes it runs',
  gpio: 'gpioinfo, of the package gpiod, shows the chips and their lines',
};
