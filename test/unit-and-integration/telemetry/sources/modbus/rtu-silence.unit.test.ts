import { describe, expect, test } from 'vitest';

import { bench, forever, poll } from './rtu-bench.ts';

describe('a silent unit', () => {
  test('gets a request every five seconds at most, and delays no other unit', async () => {
    const { bus, read } = await bench(undefined, [1]);
    const [dead, alive] = await Promise.all([poll({ bus, read }, 3, 2, 9), poll({ bus, read }, 2, 20)]);
    for (const yielded of dead)
      expect(yielded.map((text) => String(text).includes('no answer within 500 ms'))).toEqual([true, true]);
    expect(alive.map((values) => new Set(values))).toEqual([new Set([1_000]), new Set([1_001])]);
    const times = bus.asked.filter(({ unit }) => unit === 9).map(({ atMs }) => atMs);
    for (const [index, atMs] of times.slice(1).entries()) expect(atMs - (times[index] ?? 0)).toBeGreaterThan(4_900);
  });

  // Regression: a unit without power took half of the time of its line, and ten of them nearly all of it.
  test.each([1, 10])('leaves the line to a unit that answers, also if others are silent (%i)', async (dead) => {
    const { bus, read, msSince } = await bench(undefined, [1]);
    const [settledMs, endMs] = [600_000, 1_800_000];
    const poller = async (unit: number): Promise<number[]> => {
      const heldMs: number[] = [];
      while (msSince() < endMs) {
        const startMs = msSince();
        const value = await read(0, unit, 10_000).catch(() => undefined);
        expect(value).toBe(unit === 1 ? 1_000 : undefined);
        if (startMs > settledMs) heldMs.push(msSince() - startMs);
        await bus.clock.sleep(1_000, forever);
      }
      return heldMs;
    };
    const dying = Array.from({ length: dead }, async (_, index) => poller(100 + index));
    const [live] = await Promise.all([poller(1), ...dying]);
    const times = bus.asked.filter(({ unit, atMs }) => unit !== 1 && atMs > settledMs);
    expect(new Set(times.map(({ unit }) => unit)).size).toBe(dead);
    expect(times.length * 10_000).toBeLessThan((endMs - settledMs) / 5);
    expect(live.length).toBeGreaterThan(900);
  });

  test('differs from an adapter that only hears itself', async () => {
    const { line, read } = await bench(() => ({ isEchoed: true, isLost: true }));
    await expect(read(0)).rejects.toMatchObject({
      code: 'source-timeout',
      message: 'modbus unit 1: no answer within 500 ms; the adapter echoes the request',
    });
    expect(line.isEchoing).toBe(true);
  });
});
