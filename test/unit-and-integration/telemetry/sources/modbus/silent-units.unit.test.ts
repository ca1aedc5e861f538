import { expect, test } from 'vitest';

import { SilentUnits } from '../../../../../src/telemetry/sources/modbus/silent-units.ts';

/** Asks silent unit 2 in turn with unit 1, which answers after 50 ms. Returns the times at which each got a request. */
async function ask({ others, silentMs }: { readonly others: boolean; readonly silentMs: number }) {
  let nowMs = 0;
  const asked: Record<1 | 2, number[]> = { 1: [], 2: [] };
  const units = new SilentUnits({ monotonicMs: () => nowMs });
  while (nowMs < 300_000) {
    if (others)
      await units.ask(1, async () => {
        asked[1].push(nowMs);
        nowMs += 50;
      });
    const silent = units.ask(2, async () => {
      asked[2].push(nowMs);
      nowMs += silentMs;
      throw new Error('no answer');
    });
    await expect(silent).rejects.toThrow('no answer');
    nowMs += 100;
  }
  return asked;
}

// Regression: five registers of a unit that was switched off kept a gateway busy, and another unit got one reading a minute.
test('a silent unit gets fewer and fewer requests, and another one its readings', async () => {
  const asked = await ask({ others: true, silentMs: 10_000 });
  expect(asked[2].map((ms) => Math.round(ms / 1_000))).toEqual([0, 10, 25, 45, 75, 126, 196, 266]);
  expect(asked[1].length).toBeGreaterThan(1_400);
});

test('a unit alone, or one that fails soon, is always asked', async () => {
  expect((await ask({ others: false, silentMs: 10_000 }))[2]).toHaveLength(30);
  expect((await ask({ others: true, silentMs: 10 }))[2].length).toBeGreaterThan(1_800);
});
