import { expect, test } from 'vitest';

import { SilentUnits } from '../../../../../src/telemetry/sources/modbus/silent-units.ts';

const answer = Uint8Array.of(3, 2, 0, 1);
const forever = new AbortController().signal;
const MINUTE_MS = 60_000;

interface Line {
  /** True if a unit answers now, within 50 ms. */
  readonly isAnswered: (unit: number, nowMs: number) => boolean;
  /** The duration of a request without an answer. */
  readonly silentMs: number;
  /** The number of units. */
  readonly units?: number;
}

const isFirst = (unit: number): boolean => unit === 0;

/** Asks all units in turn for ten minutes. Returns the times in seconds at which each got a request. */
async function ask({ isAnswered, silentMs, units: number = 2 }: Line) {
  let nowMs = 0;
  const ends = new Set<string>();
  const asked = Array.from({ length: number }, (): number[] => []);
  const units = new SilentUnits({ monotonicMs: () => nowMs });
  const request = async (unit: number): Promise<Uint8Array> => {
    asked[unit]?.push(Math.round(nowMs / 1_000));
    const isNow = isAnswered(unit, nowMs);
    nowMs += isNow ? 50 : silentMs;
    if (isNow) return answer;
    throw new Error('no answer');
  };
  while (nowMs < 10 * MINUTE_MS) {
    for (const unit of asked.keys()) {
      const asking = units.ask({ unit, timeoutMs: silentMs }, async () => request(unit), forever);
      ends.add(`${unit}: ${await asking.then(String, String)}`);
    }
    nowMs += 100;
  }
  return { asked, ends: [...ends] };
}

// Regression: five registers of a unit that was switched off kept a gateway busy, and another unit got one reading a minute.
test('asks a silent unit less and less often', async () => {
  const { asked, ends } = await ask({ isAnswered: isFirst, silentMs: 10_000 });
  expect(asked[1]?.slice(0, 8)).toEqual([0, 10, 30, 60, 110, 180, 250, 320]);
  expect(asked[0]?.length).toBeGreaterThan(3_000);
  expect(ends).toEqual(['0: 3,2,0,1', '1: Error: no answer']);
});

// Regression: seven units without power took the whole time of a gateway.
test.each([3, 8, 21])('gives all silent units together no more time than one (%i units)', async (units) => {
  const { asked } = await ask({ isAnswered: isFirst, silentMs: 1_000, units });
  const [live = [], ...others] = asked;
  expect(others.every((times) => times.length >= 4)).toBe(true);
  const requests = others.map((times) => times.filter((second) => second > 120).length);
  expect(requests.reduce((sum, count) => sum + count, 0)).toBeLessThan(480 / 5);
  expect(live.length).toBeGreaterThan(2_800);
});

test('asks a unit that fails soon all the time', async () => {
  const { asked } = await ask({ isAnswered: isFirst, silentMs: 10 });
  expect(asked[1]).toHaveLength(asked[0]?.length ?? 0);
});

test('asks each unit all the time while none answers, as after the loss of the gateway', async () => {
  const { asked } = await ask({ isAnswered: (_, nowMs) => nowMs < MINUTE_MS, silentMs: 10_000 });
  expect(asked.map((times) => times.filter((second) => second > 60).length)).toEqual([26, 27]);
});

// Regression: the first answer after the loss of a gateway was repeated as the value of the unit's other registers.
test('repeats no answer', async () => {
  let nowMs = 0;
  const units = new SilentUnits({ monotonicMs: () => nowMs });
  const outcome = async (value?: number): Promise<string> => {
    const request = async (): Promise<Uint8Array> => {
      nowMs += value === undefined ? 10_000 : 10;
      if (value === undefined) throw new Error('no answer');
      return Uint8Array.of(value);
    };
    return units.ask({ unit: 1, timeoutMs: 10_000 }, request, forever).then(String, String);
  };
  for (let round = 0; round < 3; round += 1) expect(await outcome()).toBe('Error: no answer');
  for (const value of [1, 2, 3]) expect(await outcome(value)).toBe(String(value));
});

test('does not count an aborted request, and does not repeat its error', async () => {
  let nowMs = 0;
  const units = new SilentUnits({ monotonicMs: () => nowMs });
  const outcome = async (unit: number, request: () => Promise<Uint8Array>, signal = forever): Promise<string> => {
    nowMs += 1_000;
    return units.ask({ unit, timeoutMs: 1_000 }, request, signal).then(String, String);
  };
  const fails = async (): Promise<Uint8Array> => Promise.reject(new Error('no answer'));
  const aborted = AbortSignal.abort(new Error('the operator ends it'));
  const outcomes: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    outcomes.push(await outcome(1, async () => answer), await outcome(2, fails, aborted));
  }
  expect(await outcome(2, fails)).toBe('Error: no answer');
  expect(new Set(outcomes)).toEqual(new Set(['3,2,0,1', 'Error: the operator ends it']));
  expect(await outcome(2, async () => answer)).toBe('3,2,0,1');
});
