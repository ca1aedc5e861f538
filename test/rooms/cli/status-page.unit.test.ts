import { expect, test } from 'vitest';

import type { Page } from '../../../src/cli/screen/page.ts';
import { renderStatus } from '../../../src/cli/screen/pages/render-status.ts';
import { plain } from '../../../src/cli/screen/paint.ts';
import type { StatusReport } from '../../../src/control/reports.ts';
import { beside } from './beside.ts';
import { noon } from './fake-context.ts';
import { calmStatus } from './fake-operations.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

test('a download that is slowed down says by what, and until when', () => {
  const until = '2026-03-01T17:00:00.000Z';
  const slowed = (throttle: StatusReport['throttle']): string =>
    beside('Slowed', renderStatus({ ...calmStatus, throttle }, page));
  expect(slowed({ bytesPerSecond: 204_800, until })).toBe(
    'the download to at most 200.0 KiB/s until 2026-03-01 18:00 +01:00 (in 5 h): [service] max_rate',
  );
  expect(slowed({ bytesPerSecond: 2_097_152 })).toBe('the download to at most 2.0 MiB/s: [service] max_rate');
  expect(slowed(undefined)).toBe('');
});
