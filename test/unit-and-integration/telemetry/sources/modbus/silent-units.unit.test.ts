import { expect, test } from 'vitest';

import { SilentUnits } from '../../../../../src/telemetry/sources/modbus/silent-units.ts';

const answer = Uint8Array.of(3, 2, 0, 1);
/** Modbus Application Protocol V1.1b3, 7: the gateway target failed to respond. */
const failedToRespond = Uint8Array.of(0x83, 11);

interface Line {
  /** The time that unit 1 needs, which answers. Undefined if it is silent, too. */
  readonly answerMs: number | undefined;
  /** The duration of a request to unit 2, which is silent, and its end. */
  readonly silentMs: number;
  readonly end?: 'error' | 'exception';
}

async function valueOrThrown(asked: Promise<Uint8Array>): Promise<string> {
  return asked.then(String, String);
}

/** Asks both units in turn for five minutes. Returns the times in seconds at which each got a request. */
async function ask({ answerMs, silentMs, end = 'error' }: Line) {
  let nowMs = 0;
  const ends = new Set<string>();
  const asked: Record<1 | 2, number[]> = { 1: [], 2: [] };
  const units = new SilentUnits({ monotonicMs: () => nowMs });
  const silent = (unit: 1 | 2) => async (): Promise<Uint8Array> => {
    asked[unit].push(Math.round(nowMs / 1_000));
    nowMs += silentMs;
    if (end === 'exception') return failedToRespond;
    throw new Error('no answer');
  };
  const answering = async (): Promise<Uint8Array> => {
    asked[1].push(Math.round(nowMs / 1_000));
    nowMs += answerMs ?? 0;
    return answer;
  };
  while (nowMs < 300_000) {
    const first = await valueOrThrown(units.ask(1, answerMs === undefined ? silent(1) : answering));
    const second = await valueOrThrown(units.ask(2, silent(2)));
    ends.add(`${first}; ${second}`);
    nowMs += 100;
  }
  return { ...asked, ends: [...ends] };
}

// Regression: five registers of a unit that was switched off kept a gateway busy, and another unit got one reading a minute.
test.each(['error', 'exception'] as const)('asks a silent unit less and less often (%s)', async (end) => {
  const asked = await ask({ answerMs: 50, silentMs: 10_000, end });
  expect(asked[2]).toEqual([0, 10, 25, 45, 75, 126, 196, 266]);
  expect(asked[1].length).toBeGreaterThan(1_400);
  expect(asked.ends).toEqual([`3,2,0,1; ${end === 'error' ? 'Error: no answer' : '131,11'}`]);
});

test('always asks a unit that fails soon', async () => {
  expect((await ask({ answerMs: 50, silentMs: 10 }))[2].length).toBeGreaterThan(1_800);
});

test('always asks each unit while none answers, as after the loss of the gateway', async () => {
  const asked = await ask({ answerMs: undefined, silentMs: 10_000 });
  expect([asked[1].length, asked[2].length]).toEqual([15, 15]);
});
