import { failsForLong } from '../../gateway-state.ts';
import type { OutputOf } from '../../operations.ts';
import { formatBytes } from '../bytes.ts';
import { pluralize } from '../counted.ts';
import { formatTime } from '../time.ts';
import type { When } from '../time.ts';
import type { Row } from './row.ts';
import { isTroubled, silence } from './sensor-rows.ts';

const MAX_FAILING_SHOWN = 5;

/** Returns all rows of `agent queue status`. */
export function queueRows(status: OutputOf<'queue'>, when: When): readonly Row[] {
  const { spool, delivery, sources, watches, deadLetters } = status;
  const failing = sources.filter(isTroubled);
  return [
    { label: 'Queue', paragraphs: [describeQueue(status)] },
    { label: 'Delivered', paragraphs: [describeDelivered(delivery)] },
    { label: 'Retried', paragraphs: delivery.resent === 0 ? [] : [pluralize(delivery.resent, 'datapoint')] },
    { label: 'Dropped', paragraphs: droppedByReason(status) },
    { label: 'Service', paragraphs: delivery.error === undefined ? [] : [delivery.error], tone: 'attention' },
    {
      label: 'Suspended',
      paragraphs: delivery.suspendedEvents.map((event) => `${event}: the service rejects it at the moment`),
    },
    { label: 'Disk', paragraphs: spool.error === undefined ? [] : [spool.error], tone: 'attention' },
    {
      label: 'Storage',
      paragraphs: [[...writtenPerDay(spool), `file size ${formatBytes(spool.fileBytes)}`].join('; ')],
    },
    { label: 'Clock', paragraphs: [clock(status)] },
    { label: 'Sources', paragraphs: [`${sources.length - failing.length} of ${sources.length} work`] },
    { label: 'Failing', paragraphs: failingSources(status), tone: 'attention' },
    { label: 'Silent', paragraphs: silentSources(status) },
    {
      label: 'Watches',
      paragraphs: watches.map(({ id, lastError }) => `${id}: ${lastError ?? 'reported when it changes'}`),
    },
    {
      label: 'Rejected',
      paragraphs: deadLetters.map(
        ({ event, at, value, reason }) => `${event} ${formatTime(at, when, 'given')} ${value}: ${reason}`,
      ),
    },
  ];
}

function describeDelivered({ delivered, requests, failedRequests }: OutputOf<'queue'>['delivery']): string {
  const failed = failedRequests === 0 ? '' : `; ${pluralize(failedRequests, 'request')} failed`;
  return `${pluralize(delivered, 'datapoint')}, in ${pluralize(requests - failedRequests, 'request')}${failed}`;
}

function describeQueue({ spool }: OutputOf<'queue'>): string {
  const { pointsInMemory, pointsOnDisk, properties, oldestAgeMs } = spool;
  const parts = [`${pluralize(pointsInMemory, 'datapoint')} in memory, ${pointsOnDisk} on disk`];
  if (properties > 0) parts.push(pluralize(properties, 'property', 'properties'));
  if (oldestAgeMs !== undefined) parts.push(`the oldest for ${age(oldestAgeMs)}`);
  return parts.join('; ');
}

/** Returns the queue in `agent status`: length, flash wear and problems. */
export function summarizeQueue(status: OutputOf<'queue'>): Pick<Row, 'paragraphs' | 'tone'> {
  const { spool } = status;
  const lost = droppedByReason(status);
  const failing = failingSources(status);
  const silent = silentSources(status);
  const troubles = [
    ...(spool.error === undefined ? [] : [spool.error]),
    ...(lost.length === 0 ? [] : [`dropped: ${lost.join(', ')}`]),
    ...failing.slice(0, MAX_FAILING_SHOWN),
    ...(failing.length > MAX_FAILING_SHOWN ? [`and ${failing.length - MAX_FAILING_SHOWN} more failing sources`] : []),
  ];
  return {
    paragraphs: [
      [describeQueue(status), ...writtenPerDay(spool)].join('; '),
      ...troubles,
      ...silent.slice(0, MAX_FAILING_SHOWN),
      ...(silent.length > MAX_FAILING_SHOWN ? [`and ${silent.length - MAX_FAILING_SHOWN} more silent sources`] : []),
    ],
    tone: troubles.length === 0 ? undefined : 'attention',
  };
}

function writtenPerDay({ flashBytesPerDay }: OutputOf<'queue'>['spool']): readonly string[] {
  return flashBytesPerDay === 0 ? [] : [`${formatBytes(flashBytesPerDay)} written per day`];
}

function failingSources({ sources }: OutputOf<'queue'>): readonly string[] {
  return sources.flatMap((source) => [
    ...(source.lastError === undefined ? [] : [`${source.name}: ${source.lastError}`]),
    ...(source.dropped === 0 ? [] : [`${source.name}: ${describeDrops(source)}`]),
  ]);
}

/** Returns the sources that are connected and silent: only the operator knows whether that is usual. */
function silentSources({ sources }: OutputOf<'queue'>): readonly string[] {
  const silent = sources.filter(({ silentForMs }) => failsForLong({ failingForMs: silentForMs }));
  return silent.flatMap((source) => {
    const text = silence(source);
    return text === undefined ? [] : [`${source.name}: ${text}`];
  });
}

function describeDrops(source: OutputOf<'queue'>['sources'][number]): string {
  const reasons = Object.entries(source.droppedFor).map(([reason, count]) => `${count} ${reason}`);
  const why = reasons.length === 0 ? '' : ` (${reasons.join(', ')})`;
  const effect = source.state === 'delivering' ? `no usable reading for ${age(source.failingForMs ?? 0)}; ` : '';
  return `${effect}${source.dropped} dropped${why}, the last: ${source.lastDrop ?? 'unknown'}`;
}

function droppedByReason({ spool }: OutputOf<'queue'>): readonly string[] {
  return Object.entries(spool.dropped)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${count} ${reason}`);
}

function age(ms: number): string {
  return ms < 120_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 60_000)} min`;
}

function clock({ clock: state, spool }: OutputOf<'queue'>): string {
  const said = clockStates[state];
  return spool.bootsWithEstimatedTime === 0
    ? said
    : `${said}; the times of ${spool.bootsWithEstimatedTime} boots are estimates`;
}

const clockStates = {
  set: 'set',
  service: 'not set on this machine; times come from the service',
  assumed: 'assumed to be right: nothing reports whether it was set',
  unset: 'not set yet; datapoints wait for it',
} as const;
