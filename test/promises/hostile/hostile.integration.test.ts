import { expect, test } from 'vitest';

import { attacks } from './attacks.ts';
import { HostileGateway } from './hostile-gateway.ts';

const MOST_RSS_MIB = 256;

test.each(attacks)('a daemon $name answers, updates and ends in order', { timeout: 300_000 }, async (attack) => {
  await using gateway = await HostileGateway.start(attack);
  const verdict = await gateway.verdict();
  expect(verdict.failure).toBeUndefined();
  expect(verdict.rssMiB).toBeLessThan(MOST_RSS_MIB);
});
