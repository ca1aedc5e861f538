import { expect, test } from 'vitest';

import { IgnoredMessages } from '../../../../src/service/messaging/broker/ignored.ts';

test('ignored replies are distinguished, with limited memory', () => {
  const ignored = new IgnoredMessages();
  ignored.finish('oldest', 'answered');
  for (let index = 0; index < 300; index += 1) ignored.finish(`id-${index}`, index % 2 === 0 ? 'answered' : 'given-up');
  for (const id of ['oldest', 'never', 'id-298', 'id-298', 'id-299']) ignored.countReply(id);
  ignored.count('retained');
  expect(ignored.counts).toEqual({
    unknown: 2,
    duplicate: 2,
    late: 1,
    retained: 1,
    request: 0,
    mismatched: 0,
    unreadable: 0,
    unwanted: 0,
  });
});
