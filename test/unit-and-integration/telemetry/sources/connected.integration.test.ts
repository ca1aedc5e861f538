import type { Socket } from 'node:net';

import { expect, test } from 'vitest';

import { execSource, execStreamSource } from '../../../../src/telemetry/sources/exec.ts';
import { mqttSource } from '../../../../src/telemetry/sources/mqtt.ts';
import { serialSource } from '../../../../src/telemetry/sources/serial.ts';
import type { PushedSource } from '../../../../src/telemetry/sources/source.ts';
import { noLogin } from '../../mqtt/no-login.ts';
import { connack, first, PretendBroker, suback } from '../../mqtt/pretend-broker.ts';

const deadline = (): AbortSignal => AbortSignal.timeout(60_000);

/** Runs a source until it is connected, or ends without. */
async function connects(source: PushedSource): Promise<unknown> {
  const enough = new AbortController();
  const signal = AbortSignal.any([enough.signal, deadline()]);
  const connected = Promise.withResolvers<object>();
  const intake = {
    connected: () => connected.resolve({ isConnected: true }),
    take: () => {},
    drop: () => {},
    rest: () => undefined,
  };
  const ended = source.run(intake, signal).catch((error: unknown) => error);
  const what = await Promise.race([connected.promise, ended]);
  enough.abort(new Error('enough'));
  await ended;
  return what;
}

const emptyLine = {
  read: async () => Buffer.alloc(0),
  write: async () => {},
  [Symbol.asyncDispose]: async () => {},
};
const port = { port: '/dev/ttyX', baud: 9_600, parity: 'none', pattern: undefined, idleTimeoutMs: 3_000 } as const;

test('a program that runs is connected, though it prints nothing', async () => {
  expect(await connects(execStreamSource({ command: ['/bin/sleep', '1000'] }))).toEqual({ isConnected: true });
});

// Regression: the messages of a program that had no reading were thrown away.
test('a program that prints to its standard error only has that noted', async () => {
  const noted = Promise.withResolvers<unknown>();
  const drop = (...what: readonly unknown[]): void => noted.resolve(what);
  const intake = { connected: () => {}, take: () => {}, drop, rest: () => undefined };
  const enough = new AbortController();
  const script = "printf 'warming up\\nno such device\\n' >&2; exec sleep 1000";
  const ended = execStreamSource({ command: ['/bin/sh', '-c', script] }).run(intake, enough.signal);
  expect(await noted.promise).toEqual(['empty', 'messages on its standard error, the last: "no such device"', 2]);
  enough.abort(new Error('enough'));
  await expect(ended).rejects.toThrow('enough');
});

test.each([
  ['echo 21.5 >&2', 'printed nothing, but an error: 21.5'],
  ['echo', 'printed nothing'],
])('a program that is read at intervals and runs %j fails', async (script, why) => {
  const read = execSource({ command: ['/bin/sh', '-c', script] }, 10_000).read(deadline());
  await expect(read).rejects.toThrow(`/bin/sh: ${why}`);
});

test('a program that ends immediately is not', async () => {
  expect(await connects(execStreamSource({ command: ['/bin/false'] }))).toMatchObject({ code: 'source-failed' });
});

test.each([
  [1, { isConnected: true }],
  [0x80, { code: 'source-failed' }],
])('a broker that answers a subscription with %i: %j', async (granted, expected) => {
  await using broker = await PretendBroker.start((socket: Socket) => {
    socket.write(connack[4]);
    socket.on('data', ([type, , ...identifier]: Buffer) => {
      if (type === first.subscribe) socket.write(suback(4, identifier, granted));
    });
  });
  const source = mqttSource({ ...noLogin, url: broker.url, topic: 'alarm', retained: 'once' });
  expect(await connects(source)).toMatchObject(expected);
});

test('a serial port that opens is connected, and fails by its silence', async () => {
  const line = { ...emptyLine };
  expect(await connects(serialSource(port, async () => line))).toEqual({ isConnected: true });
  const intake = { connected: () => {}, take: () => {}, drop: () => {}, rest: () => undefined };
  const silent = serialSource(port, async () => line).run(intake, deadline());
  await expect(silent).rejects.toMatchObject({ code: 'source-timeout', message: '/dev/ttyX: no byte for 3000 ms' });
});

test('a serial port that does not open is not', async () => {
  const refuse = async (): Promise<never> => Promise.reject(new Error('no such port'));
  expect(await connects(serialSource(port, refuse))).toMatchObject({ message: 'no such port' });
});

/** Runs a serial port whose reads return these bytes, and then fail. Returns the readings and the drops. */
async function hears(...arrivals: readonly string[]): Promise<readonly [readonly unknown[], readonly string[]]> {
  const left = [...arrivals];
  const read = async (): Promise<Uint8Array> => {
    const next = left.shift();
    if (next === undefined) throw new Error('unplugged');
    return Buffer.from(next);
  };
  const readings: unknown[] = [];
  const drops: string[] = [];
  const intake = {
    connected: () => {},
    take: (reading: () => unknown) => void readings.push(reading()),
    drop: (reason: string, why: string) => void drops.push(`${reason}: ${why}`),
    rest: () => undefined,
  };
  const ended = serialSource(port, async () => ({ ...emptyLine, read })).run(intake, deadline());
  await expect(ended).rejects.toThrow('unplugged');
  return [readings, drops];
}

const inProgress = 'malformed: the beginning of a line that was in progress when /dev/ttyX was opened is missing';

test.each([
  ['drops and counts the rest of a line in progress', ['5\n26\n', '27\n'], [26, 27], [inProgress]],
  ['drops a line in progress that comes in parts', ['5', '', '7\n26\n'], [26], [inProgress]],
  ['keeps a first line that begins after a silence', ['', '25\n26\n'], [25, 26], []],
  ['keeps the only line of a board that is reset when its port opens', ['', '25\n'], [25], []],
])('a serial port that was just opened %s', async (_, arrivals, readings, drops) => {
  expect(await hears(...arrivals)).toEqual([readings, drops]);
});

// Regression: a board that was reset within a line sent 2, and then 21.5 was read as 221.5.
test.each([
  [
    'drops a line that is interrupted',
    ['', '2', '', '', '21.5\r\n'],
    [21.5],
    ['malformed: a silence in a line, after "2": the device was reset, or sends no line end'],
  ],
  // Regression: the agent was stopped for longer than the timeout, and the bytes waited in the port.
  ['joins a line whose rest is there when the timeout is noticed', ['', '2', '', '21.5\r\n'], [221.5], []],
  [
    'reads a line whose end comes with the next one',
    ['', '\n21', '.5', '', '\n21.6', '', '', '\r\n'],
    [21.5, 21.6],
    [],
  ],
])('a serial port %s', async (_, arrivals, readings, drops) => {
  const [read, dropped] = await hears(...arrivals);
  expect([read, dropped.filter((why) => !why.includes('blank lines'))]).toEqual([readings, drops]);
});

test.each([
  ['printf "1\\n2"', ['malformed: its last line has no end: "2"']],
  ['echo 1', []],
])('a program that ends with %s', async (script, expected) => {
  const readings: unknown[] = [];
  const drops: string[] = [];
  const intake = {
    connected: () => {},
    take: (reading: () => unknown) => void readings.push(reading()),
    drop: (reason: string, why: string) => void drops.push(`${reason}: ${why}`),
    rest: () => undefined,
  };
  const ended = execStreamSource({ command: ['/bin/sh', '-c', script] }).run(intake, deadline());
  await expect(ended).rejects.toMatchObject({ code: 'source-failed' });
  expect([readings, drops]).toEqual([[1], expected]);
});
