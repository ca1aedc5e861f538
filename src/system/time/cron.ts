import { createTask, validate } from 'node-cron';

/** Whether the text is a cron expression as node-cron reads it: five fields, or six with seconds. */
export function isCronExpression(text: string): boolean {
  return validate(text);
}

/** The times of a cron expression: wall clock, milliseconds since the epoch. */
export interface CronTimes {
  /** The first time after now. */
  readonly nextMs: () => number;
  readonly includes: (timeMs: number) => boolean;
}

export function cronTimes(expression: string): CronTimes {
  const task = createTask(expression, () => {});
  // Destroys the task, which the package would otherwise keep; the functions used here need no running task.
  void task.destroy();
  return {
    nextMs: () => task.getNextRuns(1)[0]?.getTime() ?? Number.POSITIVE_INFINITY,
    includes: (timeMs) => task.match(new Date(timeMs)),
  };
}
