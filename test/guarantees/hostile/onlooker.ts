import { Worker } from 'node:worker_threads';

import * as z from 'zod';

import { telemetryReply } from '../../../src/control/telemetry-protocol.ts';
import type { TelemetryStatus } from '../../../src/control/telemetry-protocol.ts';

const seen = z.object({ statusMs: z.number(), trivialMs: z.number(), telemetry: telemetryReply });
const answer = z.union([seen, z.object({ error: z.string() })]);

/** One look at a daemon. */
export interface Seen {
  readonly telemetry: TelemetryStatus;
  readonly statusMs: number;
  /** Its duration on a machine without other load. */
  readonly calmStatusMs: number;
}

/**
 * Checks a daemon from a separate thread, whatever the attackers in this process do. A trivial program runs
 * concurrently: the slower it is compared with its best time, the more of the wait is due to the machine.
 */
export class Onlooker implements AsyncDisposable {
  static #leastTrivialMs = Number.POSITIVE_INFINITY;
  readonly #worker = new Worker(new URL('./onlooker-worker.ts', import.meta.url));

  async look(runDirectory: string): Promise<Seen> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#worker.once('message', resolve);
    this.#worker.once('error', reject);
    this.#worker.postMessage(runDirectory, []);
    const found = answer.parse(await promise);
    this.#worker.off('error', reject);
    if ('error' in found) throw new Error(found.error);
    const { statusMs, trivialMs, telemetry } = found;
    Onlooker.#leastTrivialMs = Math.min(Onlooker.#leastTrivialMs, trivialMs);
    return { telemetry, statusMs, calmStatusMs: (statusMs * Onlooker.#leastTrivialMs) / trivialMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }
}
