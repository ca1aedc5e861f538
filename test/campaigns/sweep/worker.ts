import { parentPort, workerData } from 'node:worker_threads';

import type { CatalogData } from './gateway/catalog.ts';
import { Stage } from './stage.ts';
import { TaskRun } from './tasks.ts';
import type { Task } from './tasks.ts';

export interface WorkerInput {
  readonly catalog: CatalogData;
  readonly seed: number;
}

// Unread stack traces take a quarter of the time; a replay shows them.
Error.stackTraceLimit = 0;

const { catalog, seed } = workerData as WorkerInput;
const stage = new Stage(catalog);

parentPort?.on('message', ({ task, every }: { readonly task: Task; readonly every: number }) => {
  void new TaskRun(stage, seed, every).run(task).then((result) => parentPort?.postMessage(result, []));
});
