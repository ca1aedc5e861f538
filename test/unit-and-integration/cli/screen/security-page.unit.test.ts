import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import { renderSecurityLog } from '../../../../src/cli/screen/pages/render-rows.ts';
import { anyText, steering } from '../any-text.ts';

const page: Page = { columns: 80, paint: (_tone, text) => text, nowMs: 0, localOffset: () => 0 };
const denied = {
  number: 7,
  id: 'access-denied',
  at: '2026-11-22T15:00:00.000Z',
  detail: 'members asked for update',
  count: 3,
  lastAt: '2026-11-22T15:30:00.000Z',
};

test('an event is shown with its id, description, count, and the meaning of its id', () => {
  const text = renderSecurityLog({ events: [denied], discarded: 6 }, page).replaceAll(/\s+/g, ' ');
  expect(text).toContain('6 older entries were discarded.');
  expect(text).toContain('access-denied, 3 times, the last 2026-11-22 15:30:00 +00:00 members asked for update');
  expect(text).toContain('a user requested an operation from the daemon without permission');
});

test('no event can steer the terminal', () => {
  fc.assert(
    fc.property(anyText, anyText, (id, detail) => {
      expect(steering(renderSecurityLog({ events: [{ ...denied, id, detail }], discarded: 0 }, page))).toEqual([]);
    }),
  );
});
