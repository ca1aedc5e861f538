import { expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { together } from './attack.ts';
import { attacks } from './attacks.ts';
import { HostileGateway } from './hostile-gateway.ts';

const MOST_RSS_MIB = 256;
/** Each alone, or three or four of different kinds together. */
const GATEWAYS = howMuch(attacks.length, 4);
const chosen = Array.from({ length: GATEWAYS }, (_, at) =>
  together(attacks.filter((_attack, index) => index % GATEWAYS === at)),
);

test.each(chosen)('a daemon $name answers, updates and ends in order', { timeout: 300_000 }, async (attack) => {
  await using gateway = await HostileGateway.start(attack);
  const verdict = await gateway.verdict();
  expect(verdict.failure).toBeUndefined();
  expect(verdict.rssMiB).toBeLessThan(MOST_RSS_MIB);
});
