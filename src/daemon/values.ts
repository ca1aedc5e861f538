import type { AcknowledgedBy } from '../telemetry/delivery/acknowledgement.ts';
import type { LocalPoint, Telemetry } from '../telemetry/telemetry.ts';
import { DaemonError } from './errors.ts';
import type { Wiring } from './wiring/wiring.ts';

/**
 * Sends datapoints to the service: through the queue if there is one, which acknowledges them when they are durable or
 * delivered; else directly.
 */
export async function sendPoints(
  points: readonly LocalPoint[],
  { wiring, telemetry }: { readonly wiring: Wiring; readonly telemetry: Telemetry | undefined },
  signal: AbortSignal,
): Promise<AcknowledgedBy> {
  if (telemetry !== undefined) return telemetry.sendDatapoints(points, signal);
  const { session, world } = wiring;
  const now = new Date(world.clock.nowMs()).toISOString();
  for (const [event, ofEvent] of Map.groupBy(points, (point) => point.event)) {
    const datapoints = ofEvent.map(({ value, at }) => ({ value, at: at ?? now }));
    await session.postDatapoints(event, datapoints, signal);
  }
  return 'service';
}

export async function setValue(
  { id, value }: { readonly id: string; readonly value: unknown },
  { wiring, telemetry }: { readonly wiring: Wiring; readonly telemetry: Telemetry | undefined },
  signal: AbortSignal,
): Promise<AcknowledgedBy> {
  if (telemetry !== undefined) return telemetry.setProperty(id, value, signal);
  await wiring.session.setProperty(id, value, signal);
  return 'service';
}

/** Returns the error without a daemon, which owns the queue. */
export function noQueue(): DaemonError {
  return new DaemonError('queue-owned-by-daemon', 'the queue belongs to the daemon, and no daemon runs');
}
