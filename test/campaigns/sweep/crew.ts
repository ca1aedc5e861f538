import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

import type { Task, TaskResult } from './tasks.ts';
import type { WorkerInput } from './worker.ts';

/** A worker thread for each core. */
export class Crew implements AsyncDisposable {
  readonly #workers: readonly Worker[];

  constructor(input: WorkerInput, size = availableParallelism()) {
    const options = { workerData: input, resourceLimits: { maxYoungGenerationSizeMb: 64 } };
    this.#workers = Array.from({ length: size }, () => new Worker(new URL('./worker.ts', import.meta.url), options));
  }

  /** In no particular order; of the cases of each task, each n-th is played. */
  async run(tasks: readonly Task[], every: number, onResult: (result: TaskResult) => void): Promise<void> {
    const queue = tasks.values();
    await Promise.all(
      this.#workers.map(async (worker) => {
        for (const task of queue) {
          worker.postMessage({ task, every }, []);
          const [result] = (await once(worker, 'message')) as [TaskResult];
          onResult(result);
        }
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.map(async (worker) => worker.terminate()));
  }
}
