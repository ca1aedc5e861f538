import { expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { groupsOfPorts } from '../../../../src/helper/agent/become-agent.ts';

test.each([
  ['of root, whoever made that a port', '/dev/null'],
  ['of a file', import.meta.filename],
  ['of nothing', '/dev/nothing'],
  ['of something in a file', '/dev/null/port'],
])('a command of root gets no group %s', async (_, port) => {
  const targets = [{ kind: 'mcu', port }] as unknown as Config['targets'];
  expect(await groupsOfPorts({ targets })).toEqual([]);
});
