import type { OutputOf } from '../control/operations.ts';
import { SharedPorts } from '../serial/shared-ports.ts';
import type { AcknowledgedBy } from '../telemetry/delivery/acknowledgement.ts';
import { readingText } from '../telemetry/reading-text.ts';
import { outputReports, sensorReport } from '../telemetry/sensors/sensor-report.ts';
import { trySource } from '../telemetry/sensors/try-sensor.ts';
import { unitOf } from '../telemetry/sensors/unit.ts';
import { SourceMaker } from '../telemetry/sources/create-source.ts';
import type { LocalPoint, Telemetry } from '../telemetry/telemetry.ts';
import { DaemonError } from './errors.ts';
import type { Wiring } from './wiring/wiring.ts';

/** The gateway, and the daemon's telemetry if a daemon runs. */
interface Measuring<W extends keyof Wiring, T extends keyof Telemetry> {
  readonly wiring: () => Pick<Wiring, W>;
  readonly telemetry?: () => Pick<Telemetry, T> | undefined;
}

/**
 * Sends datapoints to the service: through the queue if there is one, which acknowledges them when they are durable or
 * delivered; else directly.
 */
export async function sendPoints(
  points: readonly LocalPoint[],
  deps: Measuring<'session' | 'world', 'sendDatapoints'>,
  signal: AbortSignal,
): Promise<AcknowledgedBy> {
  const telemetry = deps.telemetry?.();
  if (telemetry !== undefined) return telemetry.sendDatapoints(points, signal);
  const { session, world } = deps.wiring();
  const now = new Date(world.clock.nowMs()).toISOString();
  for (const [event, ofEvent] of Map.groupBy(points, (point) => point.event)) {
    const datapoints = ofEvent.map(({ value, at }) => ({ value, at: at ?? now }));
    await session.postDatapoints(event, datapoints, signal);
  }
  return 'service';
}

/** Returns the error without a daemon, which owns the queue. */
export function noQueue(): DaemonError {
  return new DaemonError('queue-owned-by-daemon', 'the queue belongs to the daemon, and no daemon runs');
}

/** The sensors with their readings; without a daemon, as they are configured. */
export function listSensors(deps: Measuring<'config', 'sensors'>): OutputOf<'sensors'> {
  const live = deps.telemetry?.()?.sensors();
  const sensors = live ?? deps.wiring().config.measurements.map((settings) => sensorReport(settings));
  return { isLive: live !== undefined, sensors };
}

/** Reads a sensor once. If a daemon runs, it does so, since it holds the ports. */
export async function trySensor(
  name: string,
  deps: Measuring<'config' | 'world', 'trySensor'>,
  signal: AbortSignal,
): Promise<OutputOf<'trySensor'>> {
  const { config, world } = deps.wiring();
  const settings = config.measurements.find((measurement) => measurement.name === name);
  if (settings === undefined) throw new DaemonError('sensor-unknown', `unknown sensor ${name}`);
  const read = async () => {
    const telemetry = deps.telemetry?.();
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
