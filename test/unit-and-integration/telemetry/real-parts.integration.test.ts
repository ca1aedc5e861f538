import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { openSerialLine } from '../../../src/serial/serial-line.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { SourceRunner } from '../../../src/telemetry/source-runner.ts';
import type { ModbusRegister } from '../../../src/telemetry/sources/modbus/modbus-codec.ts';
import { ModbusDevices } from '../../../src/telemetry/sources/modbus/modbus.ts';
import { mqttSource, publish } from '../../../src/telemetry/sources/mqtt.ts';
import { serialSource } from '../../../src/telemetry/sources/serial.ts';
import type { Source } from '../../../src/telemetry/sources/source.ts';
import { freePort } from '../../fakes/machine/free-port.ts';
import { libmodbusServer } from '../../fakes/modbus/libmodbus-server.ts';
import { noLogin } from '../mqtt/no-login.ts';

const deadline = (): AbortSignal => AbortSignal.timeout(60_000);
/** A character at 9600 baud. */
const characterMs = 10_000 / 9_600;
const register: ModbusRegister = {
  unit: 7,
  table: 'holding',
  address: 3,
  type: 'u16',
  byteOrder: 'big',
  wordOrder: 'big',
};

let directory: string;
let children: ChildProcess[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'parts-'));
  children = [];
});
afterEach(async () => {
  for (const child of children) await stop(child);
  rmSync(directory, { recursive: true });
});

function start(program: string, ...args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: 'ignore' });
  children.push(child);
  return child;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const signal = deadline();
  while (!(await condition())) await systemClock.sleep(20, signal);
}

async function answers(port: number): Promise<boolean> {
  const socket = connect({ port, host: '127.0.0.1' });
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    if (error instanceof Error) return false;
    throw error;
  } finally {
    socket.destroy();
  }
}

/** Two ends of a line. */
async function ptyPair(): Promise<{ readonly near: string; readonly far: string; readonly cable: ChildProcess }> {
  const [near, far] = [join(directory, 'near'), join(directory, 'far')];
  const cable = start('socat', `pty,raw,echo=0,link=${near}`, `pty,raw,echo=0,link=${far}`);
  await until(() => existsSync(near) && existsSync(far));
  return { near, far, cable };
}

function running(source: Source): {
  readonly readings: unknown[];
  readonly runner: SourceRunner;
  stop(): Promise<void>;
} {
  const readings: unknown[] = [];
  const ending = new AbortController();
  const runner = new SourceRunner({
    name: 'probe',
    source,
    everyMs: 50,
    timeoutMs: 1_000,
    rate: { pointsPerSecond: 1_000, bytesPerSecond: 1_000_000 },
    clock: { ...systemClock, sleep: async (ms, signal) => systemClock.sleep(Math.min(ms, 50), signal) },
    random: () => 0.5,
    log: silentLog,
    onReading: (reading) => readings.push(reading) > 0,
  });
  const run = runner.run(ending.signal).catch(() => {});
  const stopIt = async (): Promise<void> => {
    ending.abort(new Error('the test ends'));
    await run;
  };
  return { readings, runner, stop: stopIt };
}

test('a Modbus server by libmodbus is read over TCP', async () => {
  const port = await freePort();
  start(await libmodbusServer(), 'tcp', String(port));
  await until(async () => answers(port));
  using devices = new ModbusDevices(openSerialLine, systemClock);
  const read = async (more: Partial<ModbusRegister>): Promise<unknown> =>
    devices.tcpSource({ host: '127.0.0.1', port, timeoutMs: 10_000 }, { ...register, ...more }).read(deadline());
  expect(await read({})).toBe(1_003);
  expect(await read({ type: 'u32' })).toBe(1_003 * 65_536 + 1_004);
  expect(await read({ table: 'input', address: 5, type: 'i16' })).toBe(-200);
  expect([await read({ table: 'coil', address: 0 }), await read({ table: 'coil', address: 1 })]).toEqual([0, 1]);
  await expect(read({ address: 4_000 })).rejects.toThrow('has no such address');
});

test('several sources concurrently read a Modbus device by libmodbus over a serial line', async () => {
  const { near, far } = await ptyPair();
  start(await libmodbusServer(), 'rtu', far);
  using devices = new ModbusDevices(openSerialLine, systemClock);
  const settings = { port: near, baud: 9_600, parity: 'none', timeoutMs: 2_000 } as const;
  const read = async (address: number): Promise<unknown> =>
    devices.rtuSource(settings, { ...register, address }).read(deadline());
  await until(async () =>
    read(0).then(
      () => true,
      () => false,
    ),
  );
  expect(await Promise.all([read(3), read(4), read(5)])).toEqual([1_003, 1_004, 1_005]);
  await expect(read(4_000)).rejects.toThrow('has no such address');
});

test('messages of mosquitto arrive, through wildcards, and again after it was restarted', async () => {
  const port = await freePort();
  const url = `mqtt://127.0.0.1:${port}`;
  const config = join(directory, 'mosquitto.conf');
  writeFileSync(config, `listener ${port} 127.0.0.1\nallow_anonymous true\n`);
  const login = { ...noLogin, url };
  const broker = start('mosquitto', '-c', config);
  const probe = running(mqttSource({ ...login, retained: 'once', topic: 'plant/+/temperature' }));
  const send = async (value: string): Promise<void> => {
    await until(async () => answers(port));
    await publish({ ...login, topic: 'plant/7/temperature' }, value, deadline());
  };
  await until(async () => (await send('{"t": 1}'), probe.readings.length > 0));
  expect(probe.readings[0]).toEqual({ t: 1 });
  await stop(broker);
  await until(() => probe.runner.figures.lastError !== undefined);
  start('mosquitto', '-c', config);
  await until(async () => (await send('2'), probe.readings.includes(2)));
  await probe.stop();
});

test('a serial device is read, survives being unplugged, and is read again', async () => {
  const { near, far, cable } = await ptyPair();
  const probe = running(
    serialSource(
      { port: near, baud: 115_200, parity: 'none', pattern: undefined, idleTimeoutMs: 2_000 },
      openSerialLine,
    ),
  );
  const print = (path: string, line: string): void =>
    void execFileSync('sh', ['-c', `printf '%s\\n' "$1" > "$2"`, 'sh', line, path]);
  await until(() => (print(far, 't=21.5 h=40'), probe.readings.length > 0));
  expect(probe.readings[0]).toEqual({ t: 21.5, h: 40 });
  await stop(cable);
  await until(() => probe.runner.figures.lastError !== undefined);
  const again = await ptyPair();
  const isBack = (reading: unknown): boolean => JSON.stringify(reading) === '{"back":true}';
  await until(() => (print(again.far, '{"back": true}'), probe.readings.some(isBack)));
  await probe.stop();
});

test('a line in progress when the port opens is dropped, at the pace of 9600 baud', async () => {
  const { near, far } = await ptyPair();
  const probe = running(
    serialSource({ port: near, baud: 9_600, parity: 'none', pattern: undefined, idleTimeoutMs: 2_000 }, openSerialLine),
  );
  const port = openSync(far, 'w');
  for (let lines = 0; probe.readings.length < 3 && lines < 200; lines += 1) {
    for (const character of 't=21.5 h=40 p=1013.25\n') {
      writeSync(port, character);
      await systemClock.sleep(characterMs, deadline());
    }
  }
  closeSync(port);
  await probe.stop();
  expect(new Set(probe.readings.map((reading) => JSON.stringify(reading)))).toEqual(
    new Set(['{"t":21.5,"h":40,"p":1013.25}']),
  );
});
