import { expect, test } from 'vitest';

import { Downsampler } from '../../../src/telemetry/downsampling.ts';
import type { ReductionSettings } from '../../../src/telemetry/settings.ts';

const plain: ReductionSettings = {
  scale: undefined,
  offset: undefined,
  deadband: undefined,
  heartbeatMs: undefined,
  over: undefined,
};

function reduced(settings: Partial<ReductionSettings>, readings: readonly unknown[], everyMs = 1_000) {
  const reduction = new Downsampler({ ...plain, ...settings });
  const drops: string[] = [];
  const values = readings
    .map((reading, index) => reduction.push(reading, index * everyMs, (why) => drops.push(why)))
    .filter((value) => value !== undefined);
  return { values, drops };
}

function sent(...given: Parameters<typeof reduced>): unknown[] {
  return reduced(...given).values;
}

test('everything is sent by default, in its unit', () => {
  expect(sent({ scale: 0.5, offset: -1 }, [2, 4, 4])).toEqual([0, 1, 1]);
  expect(sent({}, [2, 'text', true, { a: null }])).toEqual([2, 'text', true, { a: null }]);
});

test('scales without the noise of binary fractions', () => {
  expect(sent({ scale: 0.001 }, [13, 9, 26, 2 ** 52])).toEqual([0.013, 0.009, 0.026, 4_503_599_627_370.5]);
});

// Regression: means had digits such as 0.20000000000000004, and more of them the longer the period.
test('a mean has no noise of binary fractions', () => {
  const mean = (readings: readonly number[]): unknown =>
    sent({ over: { periodMs: 1_000 * readings.length, aggregate: 'mean' } }, [...readings, 0])[0];
  expect(mean([0.1, 0.2, 0.3])).toBe(0.2);
  expect(mean(Array<number>(50_000).fill(21.3))).toBe(21.3);
});

// Regression: of a sensor with steps of 0.1, a deadband of 0.1 left out some steps and sent others.
test('a change that is as large as the deadband is not sent, at any value', () => {
  const deadband = { kind: 'absolute', value: 0.1 } as const;
  for (let tenths = -400; tenths < 1_200; tenths += 1)
    expect(sent({ deadband }, [tenths / 10, (tenths + 1) / 10, (tenths + 2) / 10])).toHaveLength(2);
});

test('drops text that would be scaled, such as a number with a comma', () => {
  expect(sent({ scale: 0.5 }, ['21,5', 4, null])).toEqual([2]);
});

test('a change inside the deadband is not sent, compared with the last sent value', () => {
  const deadband = { kind: 'absolute', value: 1 } as const;
  expect(sent({ deadband }, [10, 10.9, 11, 11.1, 10.2, 10])).toEqual([10, 11.1, 10]);
  expect(sent({ deadband: { kind: 'relative', value: 0.1 } }, [100, 109, 111, 99])).toEqual([100, 111, 99]);
});

test('texts and states with a deadband are sent when they change', () => {
  const deadband = { kind: 'absolute', value: 1 } as const;
  expect(sent({ deadband }, ['on', 'on', 'off', false, false, 7, 7.5, 9])).toEqual(['on', 'off', false, 7, 9]);
});

test('with a deadband, drops what is not a number after one was sent', () => {
  const readings = [21, 21.1, 'unavailable', 21.1, '21,5', '\u001B[32m21.5', '21.5C', true, { t: 1 }, 21.1];
  const { values, drops } = reduced({ deadband: { kind: 'absolute', value: 0.2 } }, readings);
  expect(values).toEqual([21]);
  expect(drops).toHaveLength(6);
  expect(drops[0]).toBe('"unavailable" is not a finite number');
});

test.each([
  ['anything', {}],
  ['the last of a period', { over: { periodMs: 3_000, aggregate: 'last' } }],
  ['numbers', { deadband: { kind: 'relative', value: 0.1 } }],
] as const)('drops null from an output that takes %s', (_, settings) => {
  const { values, drops } = reduced(settings, [21, null, 30, null, 40]);
  expect(values).not.toContain(null);
  expect(drops).toEqual(Array(2).fill('null is not a finite number'));
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
] as const)('a period becomes one value: %s', (aggregate, values) => {
  expect(sent({ over: { periodMs: 3_000, aggregate } }, [1, 2, 3, 10, 11, 12, 99])).toEqual(values);
});

test.each([
  ['mean', 3],
  ['min', 1],
  ['max', 5],
] as const)('drops what is not a number from the %s of a period, and counts it', (aggregate, value) => {
  const readings = ['nan', 1, Number.NaN, 'on', 3, null, 5, { t: 1 }, Number.POSITIVE_INFINITY, true, 99];
  const { values, drops } = reduced({ over: { periodMs: 10_000, aggregate } }, readings, 1_200);
  expect(values).toEqual([value]);
  expect(drops).toEqual(
    ['"nan"', 'NaN', '"on"', 'null', '{"t":1}', 'Infinity', 'true'].map((text) => `${text} is not a finite number`),
  );
});

test('ends a period also with a reading that is not a number, and sends nothing for a period without one', () => {
  const over = { periodMs: 3_000, aggregate: 'mean' } as const;
  expect(sent({ over }, [1, 3, 'nan', 'nan', 'nan', 'nan', 'nan', 10, 20, 30, 'nan'])).toEqual([2, 20]);
});

test('ends a period by time, once, and sends its value by the same rules', () => {
  const over = { periodMs: 3_000, aggregate: 'mean' } as const;
  const reduction = new Downsampler({ ...plain, over, deadband: { kind: 'absolute', value: 1 } });
  const never = (why: string): void => expect.fail(why);
  expect([reduction.endsMs, reduction.end(10_000)]).toEqual([Number.POSITIVE_INFINITY, undefined]);
  expect([reduction.push(1, 0, never), reduction.push(2, 1_000, never), reduction.endsMs]).toEqual([
    undefined,
    undefined,
    3_000,
  ]);
  expect([2_999, 3_000, 3_000].map((nowMs) => reduction.end(nowMs))).toEqual([undefined, 1.5, undefined]);
  expect([reduction.push(2, 9_000, never), reduction.endsMs]).toEqual([undefined, 12_000]);
  expect(reduction.end(12_000)).toBeUndefined();
  expect([reduction.push(9, 13_000, never), reduction.end(Number.POSITIVE_INFINITY)]).toEqual([undefined, 9]);
});

test('takes the last text of a period, and never NaN', () => {
  const over = { periodMs: 3_000, aggregate: 'last' } as const;
  expect(sent({ over }, ['on', 'off', Number.NaN, 'on'])).toEqual(['off']);
});

test('drops NaN and Infinity without a period, too', () => {
  const { values, drops } = reduced({}, [Number.NaN, 1, -Infinity, JSON.rawJSON('1e400')]);
  expect(values).toEqual([1]);
  expect(drops).toEqual(['NaN', '-Infinity', '1e400'].map((text) => `${text} is not a finite number`));
});

test('passes on exact numbers, and computes with them as doubles', () => {
  const big = JSON.rawJSON('18446744073709551615');
  const less = JSON.rawJSON('18446744073709541000');
  const over = { periodMs: 2_000, aggregate: 'max' } as const;
  expect(JSON.stringify(sent({}, [big]))).toBe('[18446744073709551615]');
  expect(JSON.stringify(sent({ over }, [less, big, 1]))).toBe('[18446744073709551615]');
  expect(sent({ over: { ...over, aggregate: 'mean' } }, [big, 0, 1])).toEqual([2 ** 63]);
  expect(sent({ scale: 0.5 }, [big])).toEqual([2 ** 63]);
  expect(sent({ deadband: { kind: 'absolute', value: 20_000 } }, [big, less, 5])).toEqual([big, 5]);
});
