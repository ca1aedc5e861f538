import * as z from 'zod';

import { brokerLogin, topicFilter } from '../../mqtt/settings.ts';
import {
  absolutePath,
  address,
  command,
  duration,
  flag,
  text,
  user,
  wholeNumber,
} from '../../system/settings/values.ts';
import type { ModbusRegister } from './modbus/modbus-codec.ts';
import { sourceKind } from './source.ts';

// Reading a configuration loads no source, only this file.

const exec = sourceKind({
  name: 'exec',
  settings: {
    command: command(),
    user: user(),
    stream: flag().default(false).describe('It keeps running and prints a reading per line'),
    idle_timeout: duration('1s', '7d').optional().describe('After this without a line it is started again'),
  },
  create: async (program, { timeoutMs }) => {
    const { execSource, execStreamSource } = await import('./exec.ts');
    return program.stream ? execStreamSource(program) : execSource(program, timeoutMs);
  },
  place: (program) => program.command[0], // no arguments: they may be secret
  advice: () => 'start the program by hand, as the user that the configuration names for it',
  speaks: ({ stream }) => stream,
});

const mqtt = sourceKind({
  name: 'mqtt',
  settings: {
    url: address(['mqtt', 'mqtts']),
    ...brokerLogin,
    topic: topicFilter().describe(
      'With + and #. Each topic has its own deadband and period; {topic} in event, property or id stands for it',
    ),
    retained: z
      .enum(['once', 'skip'])
      .default('once')
      .describe(
        '"once" uses a retained message unless it equals the last message of its topic since the agent started; after a restart it is used again, with the time of its arrival. "skip" uses none',
      ),
    idle_timeout: duration('1s', '7d').optional().describe('After this without a message it counts as failing'),
  },
  create: async (settings) => (await import('./mqtt.ts')).mqttSource(settings),
  place: ({ url, topic }) => `${url} ${topic}`,
  speaks: () => true,
});

const register = {
  unit: wholeNumber(0, 255).default(1),
  table: z.enum(['holding', 'input', 'coil', 'discrete-input']).default('holding'),
  address: wholeNumber(0, 65_535).describe('Counted from 0, as it is sent'),
  type: z.enum(['u16', 'i16', 'u32', 'i32', 'f32', 'u64', 'i64', 'f64']).default('u16'),
  byte_order: z.enum(['big', 'little']).default('big'),
  word_order: z.enum(['big', 'little']).default('big'),
};

function registerText({ unit, table, address }: Pick<ModbusRegister, 'unit' | 'table' | 'address'>): string {
  return `unit ${unit} ${table} ${address}`;
}

const modbusTcp = sourceKind({
  name: 'modbus-tcp',
  settings: { host: text(), port: wholeNumber(1, 65_535).default(502), ...register },
  create: async (settings, { modbus, timeoutMs }) => (await modbus()).tcpSource({ ...settings, timeoutMs }, settings),
  takesTurns: true,
  place: (settings) => `${settings.host}:${settings.port} ${registerText(settings)}`,
  advice: ({ host, port }) =>
    `check the device, its unit and the register; agent sensors scan modbus ${host}:${port} asks all units`,
});

const modbusRtu = sourceKind({
  name: 'modbus-rtu',
  settings: {
    port: absolutePath('/dev/ttyUSB0'),
    baud: wholeNumber(50, 4_000_000).default(9_600),
    parity: z.enum(['none', 'even']).default('even'),
    ...register,
  },
  create: async (settings, { modbus, timeoutMs }) => (await modbus()).rtuSource({ ...settings, timeoutMs }, settings),
  takesTurns: true,
  place: (settings) => `${settings.port} ${registerText(settings)}`,
  advice: ({ port, baud, parity }) =>
    `check the wires, its unit and the register; agent sensors scan modbus ${port} --baud ${baud} --parity ${parity} asks all units`,
});

const hwmon = sourceKind({
  name: 'hwmon',
  settings: {
    chip: text().describe('Its name; of several, with its label or address: "nvme@0000:02:00.0"'),
    input: text(),
  },
  create: async ({ chip, input }) => (await import('./kernel/hwmon.ts')).hwmonSource(chip, input),
  place: ({ chip, input }) => `${chip} ${input}`,
  advice: () => 'agent sensors scan hwmon shows what there is',
});

const thermal = sourceKind({
  name: 'thermal',
  settings: { zone: text().describe('Its type, such as "cpu-thermal"; of several, with its address; or its number') },
  create: async ({ zone }) => (await import('./kernel/hwmon.ts')).thermalSource(zone),
  place: ({ zone }) => zone,
  advice: () => 'agent sensors scan thermal shows what there is',
});

const iio = sourceKind({
  name: 'iio',
  settings: {
    device: text().describe('Its name; of several, with its label or address: "ads1115@1-0048"'),
    channel: text().describe('"in_temp"; "in_temp_raw" is the count of the converter, without a unit'),
  },
  create: async ({ device, channel }) => (await import('./kernel/iio.ts')).iioSource(device, channel),
  place: ({ device, channel }) => `${device} ${channel}`,
  advice: () => 'agent sensors scan iio shows what there is',
});

const w1 = sourceKind({
  name: 'w1',
  settings: { device: text() },
  create: async ({ device }) => (await import('./kernel/w1.ts')).w1Source(device),
  place: ({ device }) => device,
  advice: () => 'agent sensors scan w1 shows what there is',
});

const serial = sourceKind({
  name: 'serial',
  settings: {
    port: absolutePath('/dev/ttyUSB0'),
    baud: wholeNumber(50, 4_000_000).default(115_200),
    pattern: text().refine(isPattern, 'a regular expression').optional(),
    idle_timeout: duration('1s', '1d').default('5m').describe('After this the port is opened again'),
  },
  create: async ({ port: path, baud, pattern, idleTimeoutMs }, { openLine }) => {
    const { serialSource } = await import('./serial.ts');
    const expression = pattern === undefined ? undefined : new RegExp(pattern);
    return serialSource({ path, baud, pattern: expression, idleTimeoutMs }, openLine);
  },
  place: ({ port }) => port,
  speaks: () => true,
});

function isPattern(value: string): boolean {
  try {
    return new RegExp(value) instanceof RegExp;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

const gpio = sourceKind({
  name: 'gpio',
  settings: {
    chip: text(),
    line: wholeNumber(0, 4_095),
    version: z.literal([1, 2], { error: '1 or 2' }).default(1).describe('Of libgpiod’s tools'),
  },
  create: async ({ chip, line, version }, { timeoutMs }) =>
    (await import('./gpio.ts')).gpioSource(chip, line, version, timeoutMs),
  place: ({ chip, line }) => `${chip} line ${line}`,
  advice: () => 'gpioinfo, of the package gpiod, shows the chips and their lines',
});

const file = sourceKind({
  name: 'file',
  settings: { path: absolutePath('/run/level') },
  create: async ({ path }) => (await import('./file.ts')).fileSource(path),
  place: ({ path }) => path,
  advice: () => 'check that the file exists, and that its writer runs',
});

const metrics = [
  'load1',
  'memory_used_percent',
  'memory_available_bytes',
  'disk_used_percent',
  'disk_free_bytes',
  'network_received_bytes',
  'network_sent_bytes',
  'cpu_temperature',
  'uptime',
  'throttled',
  'agent_memory_bytes',
  'agent',
] as const;

export type SystemMetric = (typeof metrics)[number];

const system = sourceKind({
  name: 'system',
  settings: { metric: z.enum(metrics) },
  create: async ({ metric }, deps) => (await import('./system.ts')).systemSource(metric, deps),
  place: ({ metric }) => metric,
});

/** All sources; `kind` of a `source` names one of them. */
export const sources = [exec, mqtt, modbusTcp, modbusRtu, hwmon, thermal, iio, w1, serial, gpio, file, system] as const;
