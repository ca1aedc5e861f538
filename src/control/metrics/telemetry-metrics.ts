import { isTroubled } from '../presentation/rows/sensor-rows.ts';
import type { StatusReport } from '../reports.ts';
import { clockStates, dropReasons, sourceStates } from '../telemetry-protocol.ts';
import { counter, gauge, stateSet } from './family.ts';
import type { Family } from './family.ts';

type Telemetry = NonNullable<StatusReport['telemetry']>;

/** Returns the metrics of the queue and of delivery. The counters restart with each daemon. */
export function telemetryMetrics(telemetry: Telemetry | undefined): readonly Family[] {
  if (telemetry === undefined) return [];
  const { spool, delivery, clock, sources } = telemetry;
  return [
    stateSet('thing_agent_clock', 'Source of the time.', clockStates, [clock]),
    ...queueMetrics(spool),
    counter('thing_agent_delivered_points', 'Datapoints that the service accepted.', delivery.delivered),
    counter('thing_agent_delivery_requests', 'Requests with datapoints.', delivery.requests),
    counter('thing_agent_delivery_failed_requests', 'Failed requests with datapoints.', delivery.failedRequests),
    counter('thing_agent_resent_points', 'Datapoints that were sent more than once.', delivery.resent),
    ...sourceMetrics(sources),
  ];
}

function queueMetrics(spool: Telemetry['spool']): readonly Family[] {
  return [
    gauge('thing_agent_queue_points', 'Queued datapoints.', [
      [{ place: 'memory' }, spool.pointsInMemory],
      [{ place: 'disk' }, spool.pointsOnDisk],
    ]),
    gauge('thing_agent_queue_bytes', 'Size of the datapoints on disk.', spool.bytesOnDisk),
    gauge('thing_agent_queue_file_bytes', 'Size of the queue file.', spool.fileBytes),
    gauge(
      'thing_agent_queue_oldest_age_seconds',
      'Age of the oldest datapoint on disk.',
      spool.oldestAgeMs === undefined ? undefined : spool.oldestAgeMs / 1_000,
    ),
    gauge('thing_agent_queue_properties', 'Queued property values.', spool.properties),
    gauge('thing_agent_queue_dead_letters', 'Stored datapoints that the service rejected.', spool.deadLetters),
    counter(
      'thing_agent_dropped_points',
      'Lost datapoints, by reason.',
      Object.entries(spool.dropped).map(([reason, count]) => [{ reason }, count]),
    ),
  ];
}

function sourceMetrics(sources: Telemetry['sources']): readonly Family[] {
  const each = (value: (source: Telemetry['sources'][number]) => number | undefined) =>
    sources.map((source) => [{ source: source.name }, value(source)] as const);
  return [
    gauge(
      'thing_agent_source_up',
      'Whether the source works and delivers usable values.',
      each((source) => Number(!isTroubled(source))),
    ),
    gauge(
      'thing_agent_source_state',
      'Progress of the source; all are 0 while it is not connected.',
      sources.flatMap(({ name, state }) =>
        sourceStates.map((one) => [{ source: name, state: one }, Number(one === state)] as const),
      ),
    ),
    gauge(
      'thing_agent_source_last_reading_age_seconds',
      'Time since the last reading of the source, or since the start of the daemon.',
      each(({ silentForMs, lastReadingAgeMs = silentForMs }) => lastReadingAgeMs && lastReadingAgeMs / 1_000),
    ),
    counter(
      'thing_agent_source_readings',
      'Readings of the source.',
      each(({ readings }) => readings),
    ),
    counter(
      'thing_agent_source_failures',
      'Failed readings of the source.',
      each(({ failures }) => failures),
    ),
    counter(
      'thing_agent_source_dropped',
      'Unused values of the source, by reason.',
      sources.flatMap(({ name, droppedFor }) =>
        dropReasons.map((reason) => [{ source: name, reason }, droppedFor[reason] ?? 0] as const),
      ),
    ),
  ];
}
