import { describe, expect, test } from 'vitest';

import { Converser } from '../../../src/mcu/converse.ts';
import { LineTiming } from '../../../src/mcu/line-timing.ts';
import { discard, exactly, exchange, noReply, persist } from '../../../src/mcu/protocol.ts';
import type { Conversation, Exchange } from '../../../src/mcu/protocol.ts';
import type { Line } from '../../../src/serial/line.ts';
import { ManualClock } from '../../fakes/clock.ts';

const signal = new AbortController().signal;

function exchangeOf(sendBytes: number, answerBytes: number, workMs = 0): Exchange {
  const send = new Uint8Array(sendBytes);
  return { kind: 'exchange', send, answer: exactly(answerBytes), workMs, pipelined: false };
}

describe('a deadline', () => {
  test('grows with the bytes both ways and shrinks with the baud rate', () => {
    const slow = new LineTiming(9_600, 10);
    const fast = new LineTiming(115_200, 10);
    const more = slow.deadlineMs(exchangeOf(200, 100)) - slow.deadlineMs(exchangeOf(100, 100));
    expect(more).toBeCloseTo((100 * 10 * 1000) / 9_600);
    expect(fast.deadlineMs(exchangeOf(200, 100))).toBeLessThan(slow.deadlineMs(exchangeOf(200, 100)));
  });

  test('holds the work of the chip and four measured round trips', () => {
    const pace = new LineTiming(115_200, 10);
    pace.observe(exchangeOf(0, 0), 0, 40);
    const quick = pace.deadlineMs(exchangeOf(0, 0));
    expect(pace.deadlineMs(exchangeOf(0, 0, 500)) - quick).toBe(500);
    pace.observe(exchangeOf(0, 0), 0, 120);
    expect(pace.roundTripMs).toBe(50);
    expect(pace.deadlineMs(exchangeOf(0, 0)) - quick).toBe(40);
  });

  test('learns nothing from a turn in which the chip worked', () => {
    const pace = new LineTiming(115_200, 10);
    pace.observe(exchangeOf(0, 0, 100), 0, 90);
    expect(pace.roundTripMs).toBeUndefined();
  });
});

/** Returns a prepared chunk for every read, then nothing; waiting takes virtual time. */
function scripted(clock: ManualClock, chunks: readonly (readonly number[])[]): Line & { readonly written: number[] } {
  const left = [...chunks];
  const written: number[] = [];
  return {
    name: 'scripted',
    baud: 115_200,
    bitsPerCharacter: 10,
    written,
    write: async (bytes) => void written.push(...bytes),
    read: async (timeoutMs) => {
      if (timeoutMs === 0) return new Uint8Array();
      const chunk = left.shift();
      clock.advance(chunk === undefined ? timeoutMs : 1);
      return Uint8Array.from(chunk ?? []);
    },
    setModem: async () => true,
    setBaud: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

describe('a conversation', () => {
  test('receives a complete reply, for any chunks', async () => {
    const clock = new ManualClock(0);
    const converser = new Converser(scripted(clock, [[1], [2, 3], [4]]), clock);
    expect([...(await converser.converse(exchange(Uint8Array.of(9), exactly(4)), signal))]).toEqual([1, 2, 3, 4]);
  });

  test.each([
    ['board-timeout', []],
    ['board-bad-response', [[1, 2]]],
  ])('ends with %s if the reply is incomplete at its deadline', async (code, chunks) => {
    const clock = new ManualClock(0);
    const converser = new Converser(scripted(clock, chunks), clock);
    const turn = exchangeOf(1, 4);
    await expect(converser.converse(exchange(turn.send, turn.answer), signal)).rejects.toMatchObject({ code });
    expect(clock.monotonicMs()).toBeGreaterThanOrEqual(new LineTiming(115_200, 10).deadlineMs(turn));
  });

  test('keeps data after a reply only for a pipelined turn', async () => {
    const listen = function* (pipelined: boolean): Conversation<number[]> {
      const turn = { kind: 'exchange', send: new Uint8Array(), answer: exactly(2), workMs: 0 } as const;
      yield { ...turn, pipelined: true };
      return [...(yield { ...turn, pipelined }).bytes];
    };
    for (const [pipelined, heard] of [
      [true, [3, 4]],
      [false, [5, 6]],
    ] as const) {
      const clock = new ManualClock(0);
      const converser = new Converser(
        scripted(clock, [
          [1, 2, 3, 4],
          [5, 6],
        ]),
        clock,
      );
      expect(await converser.converse(listen(pipelined), signal)).toEqual(heard);
    }
  });

  test('does not drown in noise, nor wait for a line that never falls quiet', async () => {
    const clock = new ManualClock(0);
    const noise = Array.from({ length: 5_000 }, () => Array.from({ length: 100 }, () => 0x55));
    const converser = new Converser(scripted(clock, noise), clock);
    const never = function* (): Conversation<number> {
      yield { kind: 'discard', quietMs: 20 };
      const turn = { kind: 'exchange', send: new Uint8Array(), answer: noReply, workMs: 60_000 } as const;
      return (yield { ...turn, pipelined: false }).bytes.byteLength;
    };
    expect(await converser.converse(never(), signal)).toBeLessThan(10_000);
    expect(clock.monotonicMs()).toBeLessThan(3_000);
  });

  // Regression: a pty that floods cost up to 21 s of processor time per connection (2 GB).
  test('refuses a peer that floods, unless conversations succeed in between', async () => {
    const clock = new ManualClock(0);
    const chunk = new Uint8Array(64 * 1024);
    let sentBytes = 0;
    const read = async (timeoutMs: number): Promise<Uint8Array> => {
      clock.advance(40); // 50 chunks until a discard ends
      if (timeoutMs > 0) sentBytes += chunk.byteLength;
      return timeoutMs > 0 ? chunk : new Uint8Array();
    };
    const converser = new Converser({ ...scripted(clock, []), read }, clock);
    for (let times = 0; times < 3; times += 1) await converser.converse(discard(), signal);
    sentBytes = 0;
    const connect = persist(() => exchange(Uint8Array.of(1), { atMost: 4, length: () => 0 }), 20);
    const refused = {
      code: 'board-bad-response',
      remedy: 'give-up',
      message: expect.stringContaining('4 MiB') as unknown,
    };
    await expect(converser.converse(connect, signal)).rejects.toMatchObject(refused);
    expect(sentBytes).toBeLessThan(5 * 1024 * 1024);
  });
});
