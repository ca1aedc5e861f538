import { createTask, validate } from 'node-cron';

/** Five fields, or six with seconds, as node-cron reads them. */
export function isCronExpression(text: string): boolean {
  return validate(text);
}

/** The times of a cron expression: wall clock, milliseconds since the epoch. */
export interface CronTimes {
  /** The first one after now. */
  readonly nextMs: () => number;
  readonly includes: (timeMs: number) => boolean;
}

export function cronTimes(expression: string): CronTimes {
  const task = createTask(expression, () => {});
  // The package keeps every task until it is destroyed; what is asked of it here needs no running task.
  void task.destroy();
  return {
    nextMs: () => task.getNextRuns(1)[0]?.getTime() ?? Number.POSITIVE_INFINITY,
    includes: (timeMs) => task.match(new Date(timeMs)),
  };
}
