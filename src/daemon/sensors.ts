import type { OutputOf } from '../control/operations.ts';
import { SharedPorts } from '../serial/shared-ports.ts';
import { readingText } from '../telemetry/reading-text.ts';
import { outputReports, sensorReport } from '../telemetry/sensors/sensor-report.ts';
import { trySource } from '../telemetry/sensors/try-sensor.ts';
import { unitOf } from '../telemetry/sensors/unit.ts';
import { SourceMaker } from '../telemetry/sources/create-source.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { DaemonError } from './errors.ts';
import type { Wiring } from './wiring/wiring.ts';

interface Where {
  readonly wiring: Pick<Wiring, 'config' | 'world'>;
  /** The daemon's telemetry, if a daemon runs. */
  readonly telemetry: Pick<Telemetry, 'sensors' | 'trySensor'> | undefined;
}

/** The sensors with their readings; without a daemon, as they are configured. */
export function listSensors({ wiring, telemetry }: Where): OutputOf<'sensors'> {
  const sensors = telemetry?.sensors() ?? wiring.config.measurements.map((settings) => sensorReport(settings));
  return { isLive: telemetry !== undefined, sensors };
}

/** Reads a sensor once. If a daemon runs, it does so, since it holds the ports. */
export async function trySensor(
  name: string,
  { wiring, telemetry }: Where,
  signal: AbortSignal,
): Promise<OutputOf<'trySensor'>> {
  const { config, world } = wiring;
  const settings = config.measurements.find((measurement) => measurement.name === name);
  if (settings === undefined) throw new DaemonError('sensor-unknown', `there is no sensor ${name}`);
  const read = async () => {
    if (telemetry !== undefined) return telemetry.trySensor(name, signal);
    const { clock } = world;
    const { openForSource: openLine } = new SharedPorts({ clock, isBusy: () => false });
    using maker = new SourceMaker({ openLine, clock, diskPath: config.paths.state, agentFigures: () => ({}) });
    return await trySource(maker.make(settings), settings, signal);
  };
  const reading = await read();
  const outputs = [...outputReports(settings, reading)];
  return { reading: readingText(reading) ?? 'null', unit: unitOf(settings.source), outputs };
}
