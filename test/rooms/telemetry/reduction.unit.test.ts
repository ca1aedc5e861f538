import { expect, test } from 'vitest';

import { Reduction } from '../../../src/telemetry/reduction.ts';
import type { ReductionSettings } from '../../../src/telemetry/settings.ts';

const plain: ReductionSettings = { scale: 1, offset: 0, deadband: undefined, heartbeatMs: undefined, over: undefined };

function sent(settings: Partial<ReductionSettings>, readings: readonly unknown[], everyMs = 1_000): unknown[] {
  const reduction = new Reduction({ ...plain, ...settings });
  return readings
    .map((reading, index) => reduction.push(reading, index * everyMs))
    .filter((value) => value !== undefined);
}

test('everything is sent when nothing is asked for, in its unit', () => {
  expect(sent({ scale: 0.5, offset: -1 }, [2, 4, 4, 'text'])).toEqual([0, 1, 1, 'text']);
});

test('a change inside the deadband is not sent, measured from what was sent', () => {
  const deadband = { kind: 'absolute', value: 1 } as const;
  expect(sent({ deadband }, [10, 10.9, 11, 11.1, 10.2, 10])).toEqual([10, 11.1, 10]);
  expect(sent({ deadband: { kind: 'relative', value: 0.1 } }, [100, 109, 111, 99])).toEqual([100, 111, 99]);
  expect(sent({ deadband }, ['on', 'on', 'off', { a: 1 }, { a: 1 }])).toEqual(['on', 'off', { a: 1 }]);
});

test('the heartbeat sends what has not changed', () => {
  const deadband = { kind: 'absolute', value: 1 } as const;
  expect(sent({ deadband, heartbeatMs: 3_000 }, [5, 5, 5, 5, 5])).toEqual([5, 5]);
});

test.each([
  ['mean', [2, 11]],
  ['min', [1, 10]],
  ['max', [3, 12]],
  ['last', [3, 12]],
] as const)('a period becomes one value: %s', (keep, values) => {
  expect(sent({ over: { periodMs: 3_000, keep } }, [1, 2, 3, 10, 11, 12, 99])).toEqual(values);
});
