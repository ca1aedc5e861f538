import { isTroubled } from '../presentation/rows/sensor-rows.ts';
import type { StatusReport } from '../reports.ts';
import { clockStates, dropReasons, sourceStates } from '../telemetry-protocol.ts';
import { counter, gauge, stateSet } from './family.ts';
import type { Family } from './family.ts';

type Telemetry = NonNullable<StatusReport['telemetry']>;

/** Metrics of the spool and of delivery. The counters begin anew with each daemon. */
export function telemetryMetrics(telemetry: Telemetry | undefined): readonly Family[] {
  if (telemetry === undefined) return [];
  const { spool, delivery, clock, sources } = telemetry;
  return [
    stateSet('thing_agent_clock', 'How the agent knows the time.', clockStates, [clock]),
    ...spoolMetrics(spool),
    counter('thing_agent_delivered_points', 'Points that the service took.', delivery.delivered),
    counter('thing_agent_delivery_requests', 'Requests with points.', delivery.requests),
    counter('thing_agent_delivery_failed_requests', 'Requests with points that failed.', delivery.failedRequests),
    counter('thing_agent_resent_points', 'Points that were sent more than once.', delivery.resent),
    ...sourceMetrics(sources),
  ];
}

function spoolMetrics(spool: Telemetry['spool']): readonly Family[] {
  return [
    gauge('thing_agent_queue_points', 'Points that wait for the service.', [
      [{ place: 'memory' }, spool.pointsInMemory],
      [{ place: 'disk' }, spool.pointsOnDisk],
    ]),
    gauge('thing_agent_queue_bytes', 'Of the points that wait on disk.', spool.bytesOnDisk),
    gauge('thing_agent_queue_file_bytes', 'The file of the spool.', spool.fileBytes),
    gauge(
      'thing_agent_queue_oldest_age_seconds',
      'Age of the oldest point on disk.',
      spool.oldestAgeMs === undefined ? undefined : spool.oldestAgeMs / 1_000,
    ),
    gauge('thing_agent_queue_properties', 'Values of properties that wait for the service.', spool.properties),
    gauge('thing_agent_queue_dead_letters', 'Points that the service refused, and that are kept.', spool.deadLetters),
    counter(
      'thing_agent_dropped_points',
      'Points that were lost, by why.',
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
      'Whether the source works: it does not fail, and what it delivers can be used.',
      each((source) => Number(!isTroubled(source))),
    ),
    gauge(
      'thing_agent_source_state',
      'How far the source has come; all are 0 while it is not connected.',
      sources.flatMap(({ name, state }) =>
        sourceStates.map((one) => [{ source: name, state: one }, Number(one === state)] as const),
      ),
    ),
    gauge(
      'thing_agent_source_last_reading_age_seconds',
      'Since the last reading of the source, or since the start of the daemon.',
      each(({ silentForMs, lastReadingAgeMs = silentForMs }) => lastReadingAgeMs && lastReadingAgeMs / 1_000),
    ),
    counter(
      'thing_agent_source_readings',
      'Readings of the source.',
      each(({ readings }) => readings),
    ),
    counter(
      'thing_agent_source_failures',
      'Readings of the source that failed.',
      each(({ failures }) => failures),
    ),
    counter(
      'thing_agent_source_dropped',
      'What came from the source and was not used, by why.',
      sources.flatMap(({ name, droppedFor }) =>
        dropReasons.map((reason) => [{ source: name, reason }, droppedFor[reason] ?? 0] as const),
      ),
    ),
  ];
}
