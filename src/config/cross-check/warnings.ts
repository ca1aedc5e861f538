import { durationMs } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import type { ConfigFile } from '../schema/schema.ts';
import { isPlain } from './connections.ts';

/** The time of systemd/thing-agent-trial.timer (30 minutes after boot), minus the time that a start may take. */
const LONGEST_GUARDED_DEADLINE = '25m';

/** Returns settings that are allowed but weaken a guarantee, or have no effect. */
export function findWarnings(file: ConfigFile): readonly Finding[] {
  return [...warningsOf(file)];
}

function* warningsOf({ update, service, trust, targets }: ConfigFile): Generator<Finding> {
  const { deadline } = update.health;
  if (durationMs(deadline) > durationMs(LONGEST_GUARDED_DEADLINE))
    yield findingAt(
      ['update', 'health', 'deadline'],
      ` = "${deadline}" is longer than ${LONGEST_GUARDED_DEADLINE}: thing-agent-trial.timer ` +
        'ends a trial 30 minutes after boot, so raise its OnBootSec= in a drop-in, too',
    );
  const step = describeIdleStep(update.schedule);
  if (step !== undefined) yield findingAt(['update', 'schedule'], `: ${step}`);
  if (trust.allow_unsigned)
    yield findingAt(['trust', 'allow_unsigned'], ' = true: firmware is installed without a signature');
  else if (trust.keys.length === 0) {
    const message = 'trust.keys is empty and trust.allow_unsigned is false: updates will not be installed';
    yield { path: ['trust'], message };
  }
  if (isPlain(service.url)) yield findingAt(['service', 'url'], ' is plain http: the API key travels unprotected');
  const { messaging } = service;
  if (messaging !== undefined && isPlain(messaging.url)) {
    const what = messaging.password_file === undefined ? 'the API key travels' : 'the API key and the password travel';
    yield findingAt(['service', 'messaging', 'url'], ` is plain mqtt: ${what} unprotected`);
  }
  if (Object.keys(targets).length === 0)
    yield { path: [], message: 'there are no [targets]: updates will not be installed' };
}

/** The field of seconds may be left out. */
const spans = [
  { name: 'seconds', values: 60 },
  { name: 'minutes', values: 60 },
  { name: 'hours', values: 24 },
  { name: 'days of a month', values: 31 },
  { name: 'months', values: 12 },
  { name: 'days of a week', values: 7 },
];

/**
 * Describes a step that a cron expression cannot mean, such as `*\/90`, which restarts each hour. Returns undefined if there is none.
 */
export function describeIdleStep(schedule: string): string | undefined {
  const fields = schedule.trim().split(/\s+/);
  const first = spans.length - fields.length;
  for (const [index, field] of fields.entries()) {
    const span = spans[first + index];
    const step = field.split(',').find((part) => Number(/\/(\d+)$/.exec(part)?.[1] ?? 0) > (span?.values ?? 0));
    if (span !== undefined && step !== undefined)
      return `${step} is a step beyond the ${span.values} ${span.name} that there are, so that only the first of them counts`;
  }
  return undefined;
}
