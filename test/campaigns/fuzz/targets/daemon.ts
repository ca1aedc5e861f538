import fc from 'fast-check';

import { together } from '../../../guarantees/hostile/attack.ts';
import { attacks } from '../../../guarantees/hostile/attacks.ts';
import { HostileGateway } from '../../../guarantees/hostile/hostile-gateway.ts';
import { openTarget } from '../target.ts';
import type { FuzzTarget } from '../target.ts';

const MOST_RSS_MIB = 256;
/** On a machine that does nothing else. */
const MOST_STATUS_MS = 1_000;

/** Attacks on the real daemon, some concurrent: it answers `status`, an update continues, and SIGTERM ends it. */
export const daemon: FuzzTarget = {
  name: 'daemon',
  maxCaseMs: 180_000,
  open: async () =>
    openTarget(fc.subarray([...attacks], { minLength: 1, maxLength: 3 }), async (chosen) => {
      await using gateway = await HostileGateway.start(together(chosen));
      const { failure, slowestStatusMs, slowestCalmStatusMs, rssMiB } = await gateway.verdict();
      if (failure !== undefined) throw new Error(failure);
      if (slowestCalmStatusMs > MOST_STATUS_MS) {
        throw new Error(`status took ${slowestStatusMs} ms, ${slowestCalmStatusMs} ms but for the load of the machine`);
      }
      if (rssMiB > MOST_RSS_MIB) throw new Error(`it has ${rssMiB} MiB`);
    }),
};
