import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';

import { connectToDaemon } from '../../../src/control/client/control-client.ts';

/** A check that takes longer has failed, even with other load on the machine. */
const PATIENCE_MS = 30_000;

async function timed<T>(work: () => Promise<T>): Promise<{ readonly value: T; readonly tookMs: number }> {
  const startedMs = performance.now();
  const value = await work();
  return { value, tookMs: performance.now() - startedMs };
}

async function look(runDirectory: string): Promise<object> {
  const status = timed(async () => {
    const client = await connectToDaemon(runDirectory, { greetingMs: PATIENCE_MS }, AbortSignal.timeout(PATIENCE_MS));
    if (client === undefined) throw new Error('the daemon has gone');
    await client.status({}, AbortSignal.timeout(PATIENCE_MS));
    return client.queue({}, AbortSignal.timeout(PATIENCE_MS));
  });
  const trivial = timed(async () => once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit'));
  const [{ value: telemetry, tookMs: statusMs }, { tookMs: trivialMs }] = await Promise.all([status, trivial]);
  return { telemetry, statusMs, trivialMs };
}

parentPort?.on('message', (runDirectory: string) => {
  look(runDirectory).then(
    (found) => parentPort?.postMessage(found, []),
    (error: unknown) => parentPort?.postMessage({ error: String(error) }, []),
  );
});
