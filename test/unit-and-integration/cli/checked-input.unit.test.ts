import { expect, test } from 'vitest';

import { type } from './fake-context.ts';
import { fakeAgent } from './fake-operations.ts';

const long = 'x'.repeat(100_000);

// Regression: a reason of 100,000 characters, which the daemon refuses, went into the journal where none ran.
test.each([
  [['hold', '--reason', long], 'reason: '],
  [['unblock', long], 'version: '],
  [['property', 'get', long], 'id: '],
  [['install', `/${long}`], 'path: '],
  [['datapoint', 'send', long, '1'], 'event: '],
])('an agent without a daemon refuses the input that a daemon refuses: %j', async (words, why) => {
  const alone = fakeAgent();
  const done = await type(words, { alone });
  expect(done).toMatchObject({ exitCode: 64 });
  expect(done.err).toContain(why);
  expect(done.err).toContain('(control-request-invalid)');
  expect(done.err.length).toBeLessThan(500);
  expect(alone.calls).toEqual([]);
});
