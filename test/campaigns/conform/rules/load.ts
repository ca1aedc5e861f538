import { operations } from '../../../../src/service/operations.ts';
import { fail, need, warn } from '../verdict.ts';
import type { Rule } from '../verdict.ts';
import { isSuccess } from './replies.ts';

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
      const statuses = await Promise.all(Array.from({ length: count }, call));
      const refused = statuses.filter((status) => !isSuccess(status));
      const why = `${refused.length} of ${count} calls at the same time are refused, with status ${refused[0]}`;
      if (refused.some((status) => status !== 429 && status !== 503)) fail(why);
      if (refused.length > 0) warn(`${why}. The agent tries again`);
    },
  };
}
