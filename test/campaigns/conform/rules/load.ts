import { operations } from '../../../../src/service/operations.ts';
import { fail, Finding, need, warn } from '../verdict.ts';
import type { Rule } from '../verdict.ts';
import { readText } from './firmware.ts';
import { isSuccess } from './replies.ts';

/** The largest text that a service should be able to return: a firmware image of 96 MiB in base64. */
export const LARGE_TEXT_BYTES = 128 * 1024 * 1024;

/** Tests the throughput of a large text. */
export function largeTextRule(versionId: string): Rule {
  return {
    id: 'firmware-large',
    title: 'a text of 128 MiB arrives completely',
    source: 'agent',
    check: async (run) => {
      const startedAt = performance.now();
      const { totalBytes } = await readText(run, versionId);
      const seconds = (performance.now() - startedAt) / 1000;
      const mebibytes = totalBytes / 1024 / 1024;
      run.note(`${mebibytes.toFixed(1)} MiB in ${seconds.toFixed(1)} s: ${(mebibytes / seconds).toFixed(1)} MiB/s`);
      if (totalBytes >= LARGE_TEXT_BYTES) return;
      warn(`not tested: the text of ${versionId}, the version of --large, has only ${totalBytes} bytes, not 128 MiB`);
    },
  };
}

/** Tests a number of calls at the same time, each on its own connection. */
export function connectionsRule(count: number): Rule {
  return {
    id: 'connections',
    title: `${count} gateways may call at the same time`,
    source: 'agent',
    check: async ({ probe, thing }) => {
      const { thingId, apiKey } = need(thing, 'activation');
      const call = async (): Promise<number> =>
        (await probe.call(operations.currentVersion, { thingId }, { key: apiKey })).status;
      const statuses = await repliesOf(Array.from({ length: count }, call));
      const refused = statuses.filter((status) => !isSuccess(status));
      const why = `${refused.length} of ${count} calls at the same time are refused, with status ${refused[0]}`;
      if (refused.some((status) => status !== 429 && status !== 503)) fail(why);
      if (refused.length > 0) warn(`${why}. The agent tries again`);
    },
  };
}

/** Waits for all replies. Throws a failure with the number of missing ones. */
export async function repliesOf<T>(calls: readonly Promise<T>[]): Promise<readonly T[]> {
  const missing: Finding[] = [];
  const settled = calls.map(async (call) => {
    try {
      return [await call];
    } catch (error) {
      if (!(error instanceof Finding)) throw error;
      missing.push(error);
      return [];
    }
  });
  const replies = (await Promise.all(settled)).flat();
  const [first] = missing;
  if (first === undefined) return replies;
  fail(`${missing.length} of ${calls.length} calls at the same time get no reply. The first: ${first.message}`);
}
