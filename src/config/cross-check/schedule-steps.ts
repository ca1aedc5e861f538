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
