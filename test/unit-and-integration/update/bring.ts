import { expect } from 'vitest';

import type { Gateway } from '../../fakes/machine/memory/gateway.ts';

/** Updates a gateway from one version to the next, completing each. */
export async function bring(gateway: Gateway, ...versions: readonly string[]): Promise<void> {
  for (const version of versions) {
    gateway.service.target = version;
    expect(await gateway.run()).toMatchObject({ kind: 'up-to-date' });
  }
}
