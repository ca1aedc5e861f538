import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { SerialError } from '../../../../../src/serial/errors.ts';
import { requestPdu, rtuFrame } from '../../../../../src/telemetry/sources/modbus/modbus-codec.ts';
import { ModbusDevices } from '../../../../../src/telemetry/sources/modbus/modbus.ts';
import { RtuLine } from '../../../../../src/telemetry/sources/modbus/rtu.ts';
import type { Conduct } from '../../../../fakes/modbus/rtu-bus.ts';
import { bench, forever, newBench, poll, register, request } from './rtu-bench.ts';
import type { Bench } from './rtu-bench.ts';

const late = expect.stringContaining('no answer within 500 ms') as string;
const HOLDING = 3;
const copy = rtuFrame(1, Uint8Array.of(HOLDING, 2, 3, 0xe8));

describe('an answer that comes after its timeout', () => {
  test.each([510, 600, 900, 1_200, 2_500, 4_900])('is never taken for another one: %i ms', async (delayMs) => {
    const { bus, read } = await bench(() => ({ delayMs }));
    const came = expect.stringMatching(/no answer within 500 ms; it came later$/) as string;
    for (const yielded of await poll({ bus, read }, 3, 8)) expect(yielded).toEqual(Array(8).fill(came));
  });

  // Regression: an answer after 6.0 s became the value of another register.
  test.each([5_100, 6_000, 9_900, 14_000])('is never taken for another one after %i ms', async (delayMs) => {
    for (const isSilent of [false, true]) {
      const { bus, read } = await bench((index, code) =>
        index === 0 ? { delayMs } : { isLost: isSilent && code !== HOLDING },
      );
      const yielded = await poll({ bus, read }, 3, 4);
      for (const [address, values] of yielded.entries()) {
        for (const value of values) expect([1_000 + address, late]).toContainEqual(value);
        expect(values.at(-1)).toBe(1_000 + address);
      }
    }
  });

  test.each([5_100, 6_000, 7_500])('is never taken for another one if each takes %i ms', async (delayMs) => {
    const { bus, read } = await bench(() => ({ delayMs }));
    for (const yielded of await poll({ bus, read }, 3, 8)) expect(yielded).toEqual(Array(8).fill(late));
  });

  test('is ruled out by a request with another function, which every unit answers', async () => {
    const { bus, read, msSince } = await bench((index) => ({ isLost: index === 0 }));
    await expect(read(0)).rejects.toThrow('no answer');
    expect(await read(1)).toBe(1_001);
    expect(bus.asked.map(({ code }) => code)).toEqual([HOLDING, 4, HOLDING]);
    expect(msSince()).toBeLessThan(6_200);
  });

  test('costs the one request alone', async () => {
    const { bus, read } = await bench((index) => ({ delayMs: index % 7 === 6 ? 600 : 30 }));
    const yielded = await poll({ bus, read }, 3, 20);
    for (const [address, values] of yielded.entries()) {
      expect(new Set(values)).toEqual(new Set([1_000 + address, expect.stringContaining('no answer') as string]));
    }
    const failures = yielded.flat().filter((value) => typeof value === 'string');
    expect(failures).toHaveLength(Math.floor(60 / 7));
  });

  test('is left out during a request to another unit, which does not wait for it', async () => {
    const { bus, read, msSince } = await bench((index) => ({ delayMs: index === 0 ? 700 : 300 }));
    const first = read(0).catch((error: unknown) => [String(error), msSince()]);
    await bus.clock.sleep(100, forever);
    expect(await read(5, 2)).toBe(2_005);
    expect(await first).toEqual([late, expect.closeTo(500, 0)]);
    expect(await read(1)).toBe(1_001);
    expect(msSince()).toBeLessThan(1_200);
  });
});

describe('an answer to a request of an agent that has ended', () => {
  const leave = async ({ open }: Bench['bus'], address: number): Promise<void> => {
    const { port, unit, pdu } = request(address);
    await using line = await open(port, request(address), forever);
    await line.write(rtuFrame(unit, pdu), forever);
  };

  test.each([150, 600, 1_050])('is not taken for the first one on the line after %i ms', async (delayMs) => {
    const { bus, read } = newBench((index) => (index === 0 ? { delayMs } : {}));
    await leave(bus, 7);
    await bus.clock.sleep(100, forever);
    expect([await read(3), await read(4)]).toEqual([1_003, 1_004]);
  });

  // Regression: each register had the value of the one before, for as long as the agent ran.
  test.each([1_600, 2_500, 4_000])('is taken for no other one, however often it ends (%i ms)', async (delayMs) => {
    const { bus } = newBench(() => ({ delayMs }));
    for (const pauseMs of [100, 700, 1_500, 0]) {
      await leave(bus, 7);
      await bus.clock.sleep(pauseMs, forever);
      const line = new RtuLine(bus.open, bus.clock);
      const read = async (address: number): Promise<number> =>
        Buffer.from(await line.ask(request(address, 1, 10_000), forever)).readUInt16BE(2);
      expect(await Promise.all([3, 4, 5, 3, 4].map(read))).toEqual([1_003, 1_004, 1_005, 1_003, 1_004]);
    }
  });

  test('is waited for where a unit leaves other functions unanswered, which fails no reading', async () => {
    const { bus, read } = newBench((_, code) => (code === HOLDING ? { delayMs: 4_000 } : { isLost: true }));
    await leave(bus, 7);
    expect([await read(3, 1, 4_500), await read(4, 1, 4_500)]).toEqual([1_003, 1_004]);
    expect(bus.asked.map(({ code }) => code)).toEqual([HOLDING, 4, HOLDING, HOLDING]);
  });

  test('delays other units little where a unit leaves other functions unanswered', async () => {
    const { bus, read } = newBench((_, code) => (code === HOLDING ? {} : { isLost: true }), [1, 2, 3, 4]);
    const first = Promise.all([1, 2, 3, 4].map(async (unit) => read(0, unit, 10_000)));
    expect(await first).toEqual([1_000, 2_000, 3_000, 4_000]);
    expect(bus.clock.monotonicMs()).toBeLessThan(25_000);
  });

  test('holds up the first request alone, for a second, which does not count as its timeout', async () => {
    const { bus, read } = newBench();
    expect([await read(0, 1, 100), bus.clock.monotonicMs() > 1_900]).toEqual([1_000, true]);
    await read(0, 2);
    expect(bus.asked[0]?.atMs).toBeLessThan(1_010);
    expect((bus.asked[1]?.atMs ?? Infinity) - (bus.asked[0]?.atMs ?? 0)).toBeLessThan(1_100);
  });

  test('does not hold up requests on a line that is never silent', async () => {
    const stray = Array.from({ length: 20 }, (_, index) => ({ afterMs: 400 * index, bytes: Buffer.of(index) }));
    const { bus, read } = newBench((index) => (index === 0 ? { stray, isLost: true } : {}));
    await using line = await bus.open('/dev/ttyUSB0', request(7), forever);
    await line.write(rtuFrame(1, request(7).pdu), forever);
    expect(await read(3)).toBe(1_003);
    expect(bus.asked[1]?.atMs).toBeLessThan(6_000);
  });
});

// Regression: found by the fuzz target modbus-line.
test('an answer of the unit to another master is not taken for the one that it owes', async () => {
  const foreign = { afterMs: 1_000, bytes: rtuFrame(1, Uint8Array.of(3, 4, 0, 7, 0, 8)) };
  const { bus, read } = await bench(() => ({ delayMs: 1_300, stray: [foreign] }));
  for (const yielded of await poll({ bus, read }, 2, 4)) expect(yielded).toEqual(Array(4).fill(late));
});

describe('a unit that answers twice', () => {
  const right = (registers: number, rounds: number, unit = 1): number[][] =>
    Array.from({ length: registers }, (_, address) => Array<number>(rounds).fill(1_000 * unit + address));

  test.each([0, 1, 3, 30, 280, 300, 320, 700, 980])(
    'yields no value of another register, from the first one on: %i ms later',
    async (againMs) => {
      const made = newBench(() => ({ againMs }));
      expect(await poll(made, 3, 8)).toEqual(right(3, 8));
    },
  );

  // Regression: found by the fuzz target modbus-line.
  test('is found by its first answer, although its first request was lost', async () => {
    const made = newBench((index) => (index === 0 ? { isLost: true } : { againMs: 6 }));
    const [first = [], ...others] = await poll(made, 3, 8);
    expect([first.slice(1), ...others]).toEqual([right(1, 7)[0], ...right(3, 8).slice(1)]);
  });

  // Regression: found by the fuzz target modbus-line. An answer to another master, with another function, was the proof.
  test('is found by its first reading, although it seems to have answered before', async () => {
    const foreign = { afterMs: 0, bytes: rtuFrame(1, Uint8Array.of(4, 2, 0, 9)) };
    const made = newBench((index) => (index < 2 ? { isLost: true, stray: [foreign] } : { againMs: 6 }));
    const yielded = await poll(made, 3, 4);
    for (const [address, values] of yielded.entries()) {
      for (const value of values) expect([1_000 + address, late]).toContainEqual(value);
    }
  });

  test.each([600, 2_500])(
    'and late (%i ms) fails each request, and is never taken for another one',
    async (delayMs) => {
      const made = newBench(() => ({ delayMs, againMs: 300 }));
      for (const yielded of await poll(made, 3, 4)) expect(yielded).toEqual(Array(4).fill(late));
    },
  );

  // Regression: found by the fuzz target modbus-line; the first unit failed with an AbortError.
  test('may do so during a request to another unit', async () => {
    const answer = rtuFrame(1, Uint8Array.of(3, 2, 3, 0xe8));
    const { bus, read } = await bench((index) =>
      index === 0 ? { isLost: true } : { lead: Buffer.concat([answer, answer]) },
    );
    const first = read(0).catch((error: unknown) => String(error));
    await bus.clock.sleep(600, forever);
    expect(await read(5, 2)).toBe(2_005);
    expect(await first).toEqual(late);
  });

  test('is found behind other units, too', async () => {
    const { bus, read } = newBench(() => ({ againMs: 300 }));
    expect(await Promise.all([poll({ bus, read }, 3, 8, 1), poll({ bus, read }, 3, 8, 2)])).toEqual([
      right(3, 8, 1),
      right(3, 8, 2),
    ]);
  });

  test('is watched for ten requests, each of which takes a second more', async () => {
    const { read, msSince } = await bench((index) => (index === 0 ? { againMs: 0 } : {}));
    const times: number[] = [];
    for (let request = 0; request < 13; request += 1) {
      const startMs = msSince();
      await read(0);
      times.push(msSince() - startMs);
    }
    expect(times.map((ms) => ms > 1_000)).toEqual([...Array<boolean>(10).fill(true), false, false, false]);
  });

  test('again and again is refused, and does not hold the line', async () => {
    const stray = Array.from({ length: 200 }, (_, index) => ({ afterMs: 500 * (index + 1), bytes: copy }));
    const { bus, read } = newBench((index) => (index === 0 ? { stray } : {}));
    expect([await read(0), await read(1, 2), bus.clock.monotonicMs() < 10_000]).toEqual([1_000, 2_001, true]);
    await expect(read(1)).rejects.toThrow('answers again and again');
  });

  test('from some time on can be wrong until its next proof, and then no longer', async () => {
    const made = await bench(() => ({ againMs: 290 }));
    const yielded = await poll(made, 3, 700);
    const wrong = yielded.map((values, address) => values.findLastIndex((value) => value !== 1_000 + address));
    for (const last of wrong) expect(last).toBeLessThan(335);
    expect(Math.max(...wrong)).toBeGreaterThan(0);
  });

  test('is noticed by an answer before the next request, which waits until the line is silent', async () => {
    const { read, msSince } = await bench((index) => (index === 0 ? { stray: [{ afterMs: 21, bytes: copy }] } : {}));
    expect(await Promise.all([read(0), read(1, 1, 5_000)])).toEqual([1_000, 1_001]);
    expect(msSince()).toBeGreaterThan(2_000);
  });
});

test('the timeout of a request begins when it has the line', async () => {
  const { read } = await bench(() => ({ delayMs: 450 }));
  expect(await Promise.all([0, 1, 2, 3, 4].map(async (address) => read(address)))).toEqual([
    1_000, 1_001, 1_002, 1_003, 1_004,
  ]);
});

describe('an answer is found', () => {
  const other = rtuFrame(2, Uint8Array.of(3, 2, 0, 7));
  const otherLength = rtuFrame(1, Uint8Array.of(3, 4, 0, 7, 0, 8));
  const otherFunction = rtuFrame(1, Uint8Array.of(4, 2, 0, 7));
  const question = rtuFrame(7, requestPdu({ ...register, unit: 7, address: 3 }));
  const conducts: readonly (readonly [string, Conduct])[] = [
    ['after an echo of the request', { isEchoed: true }],
    ['after a stray byte', { lead: Uint8Array.of(0) }],
    ['after an echo and a stray byte', { isEchoed: true, lead: Uint8Array.of(0xff) }],
    ['after a stray byte like its unit', { lead: Uint8Array.of(1, 3) }],
    ['in pieces', { pieceBytes: 1 }],
    ['with a pause in its header', { pieceBytes: 2, pauseMs: 80 }],
    ['with a pause behind its data', { pieceBytes: 5, pauseMs: 300 }],
    ['with a pause behind an echo and data', { isEchoed: true, pieceBytes: 6, pauseMs: 300 }],
    ['after the answer of another unit', { stray: [{ afterMs: 10, bytes: other }] }],
    ['right after the answer of another unit', { lead: other }],
    ['after an answer of another length', { stray: [{ afterMs: 10, bytes: otherLength }] }],
    ['after the answer to another function', { lead: otherFunction }],
    [
      'after a conversation of another master',
      { lead: Buffer.concat([question, rtuFrame(7, Uint8Array.of(3, 2, 0, 9))]) },
    ],
  ];
  test.each(conducts)('%s', async (_, conduct) => {
    const { line, read } = await bench(() => conduct);
    expect([await read(3), await read(4)]).toEqual([1_003, 1_004]);
    expect(line.isEchoing).toBe(conduct.isEchoed === true);
  });

  test('but not of another unit, function or length', async () => {
    for (const bytes of [other, otherLength, otherFunction]) {
      const { read } = await bench(() => ({ isLost: true, stray: [{ afterMs: 10, bytes }] }));
      const hex = Buffer.from(bytes).toString('hex');
      await expect(read(3)).rejects.toThrow(`no answer within 500 ms, but ${hex}`);
    }
  });
});

describe('a damaged answer', () => {
  const flipped = (frame: Buffer): Buffer => {
    frame[4] = (frame[4] ?? 0) ^ 1;
    return frame;
  };

  test('is reported soon, and the next request does not wait', async () => {
    const { read, msSince } = await bench((index) => (index === 0 ? { spoil: flipped } : {}));
    await expect(read(0, 1, 10_000)).rejects.toMatchObject({
      code: 'source-failed',
      message: /a damaged answer: 010302/,
    });
    expect(await read(1)).toBe(1_001);
    expect(msSince()).toBeLessThan(200);
  });

  test('is awaited until the timeout where its end is missing', async () => {
    const { read, msSince } = await bench((index) => (index === 0 ? { spoil: (frame) => frame.subarray(0, -1) } : {}));
    await expect(read(0)).rejects.toMatchObject({ code: 'source-failed', message: /a damaged answer: 010302/ });
    expect(msSince()).toBeGreaterThanOrEqual(500);
    expect(await read(1)).toBe(1_001);
  });

  test('or noise may come before the answer, which is then not taken for the next one', async () => {
    const noise = { afterMs: 10, bytes: Buffer.alloc(12, 0xa5) };
    const { bus, read } = await bench((index) => (index === 0 ? { stray: [noise], delayMs: 300 } : {}));
    const values = await poll({ bus, read }, 2, 3);
    expect(values.map(([, ...later]) => later)).toEqual([
      [1_000, 1_000],
      [1_001, 1_001],
    ]);
  });
});

test('a request waits for the silence between frames', async () => {
  const { bus, read } = await bench(() => ({ delayMs: 20 }));
  await read(0);
  const answeredMs = bus.clock.monotonicMs();
  await read(1);
  expect((bus.asked[1]?.atMs ?? 0) - answeredMs).toBeGreaterThanOrEqual(3.5 * (11_000 / 9_600));
});

test('a line that is never silent fails a request in its time', async () => {
  const babble = Array.from({ length: 2_000 }, (_, index) => ({ afterMs: index, bytes: Uint8Array.of(1, 3, 250) }));
  const { read, msSince } = await bench((index) => ({ isLost: true, stray: index === 0 ? babble : [] }));
  await expect(read(0)).rejects.toThrow('a damaged answer');
  expect(msSince()).toBeLessThan(12_000);
});

test('returns a port that a board takes immediately, and waits until the answer of the unit is due', async () => {
  const { bus, msSince } = await bench(() => ({ delayMs: 300 }));
  const busy = new SerialError('port-busy', '/dev/ttyUSB0 is needed for its board');
  const line = new RtuLine(async (...port) => {
    const opened = await bus.open(...port);
    const isFirst = bus.asked.length === 0;
    return {
      write: async (...args) => opened.write(...args),
      read: async (...args) => (isFirst && bus.asked.length === 1 ? Promise.reject(busy) : opened.read(...args)),
      [Symbol.asyncDispose]: async () => {},
    };
  }, bus.clock);
  await expect(line.ask(request(0), forever)).rejects.toBe(busy);
  expect(msSince()).toBeLessThan(1_010); // the line was silent for a second before
  expect(Buffer.from(await line.ask(request(1), forever)).readUInt16BE(2)).toBe(1_001);
  expect(msSince()).toBeGreaterThan(4_900);
});

test('registers share a line by any name of its port, and tell of its echo', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'modbus-'));
  const [port, other] = [join(directory, 'ttyUSB0'), join(directory, 'by-id')];
  writeFileSync(port, '');
  symlinkSync(port, other);
  const { bus } = await bench(() => ({ delayMs: 400, isEchoed: true }));
  let open = 0;
  const openLine: typeof bus.open = async (...args) => {
    open += 1;
    expect(open).toBe(1);
    return { ...(await bus.open(...args)), [Symbol.asyncDispose]: async () => void (open -= 1) };
  };
  using devices = new ModbusDevices(openLine, bus.clock);
  const sources = [port, other].map((name, address) =>
    devices.rtuSource({ port: name, baud: 9_600, parity: 'none', timeoutMs: 500 }, { ...register, unit: 1, address }),
  );
  expect(sources[0]?.notice).toBeUndefined();
  expect(await Promise.all(sources.map(async (source) => source.read(forever)))).toEqual([1_000, 1_001]);
  expect(sources[1]?.notice).toBe(`the adapter at ${other} echoes what is sent`);
  rmSync(directory, { recursive: true });
});
