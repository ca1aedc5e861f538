import * as z from 'zod';

import { brokerLogin, topicFilter } from '../../mqtt/settings.ts';
import { parities } from '../../serial/line.ts';
import { undefinedIfThrows, isSyntaxError } from '../../system/errors.ts';
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
    command: command().describe('Program that prints a reading'),
    user: user(),
    stream: flag().default(false).describe('true: the program keeps running and prints one reading per line'),
    idle_timeout: duration('1s', '7d')
      .optional()
      .describe('With stream: restarts a program that prints nothing for this time'),
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
    url: address(['mqtt', 'mqtts']).describe('Address of the MQTT broker'),
    ...brokerLogin,
    topic: topicFilter().describe(
      'Topic, with + and # as wildcards. Deadband and period apply to each topic separately. {topic} in event, property or id stands for the topic',
    ),
    retained: z
      .enum(['once', 'skip'])
      .default('once')
      .describe(
        '"once": uses a retained message unless it equals the last message of its topic since the agent started. After a restart, or a reload that changes sensors, it is used again, with the time of its arrival. "skip": ignores retained messages',
      ),
    idle_timeout: duration('1s', '7d')
      .optional()
      .describe('Reports the source as failing if no message arrives for this time'),
  },
  create: async (settings) => (await import('./mqtt.ts')).mqttSource(settings),
  place: ({ url, topic }) => `${url} ${topic}`,
  speaks: () => true,
});

const register = {
  unit: wholeNumber(0, 255).default(1).describe('Unit ID (slave address) of the device'),
  table: z.enum(['holding', 'input', 'coil', 'discrete-input']).default('holding').describe('Kind of the register'),
  address: wholeNumber(0, 65_535).describe('Address of the register, counted from 0 as in the protocol'),
  type: z
    .enum(['u16', 'i16', 'u32', 'i32', 'f32', 'u64', 'i64', 'f64'])
    .default('u16')
    .describe('Type of the value: unsigned, signed or floating-point, and its bits. 32 bits are two registers'),
  byte_order: z.enum(['big', 'little']).default('big').describe('Order of the bytes in a register'),
  word_order: z.enum(['big', 'little']).default('big').describe('Order of the registers of a value'),
};

function registerText({ unit, table, address }: Pick<ModbusRegister, 'unit' | 'table' | 'address'>): string {
  return `unit ${unit} ${table} ${address}`;
}

const modbusTcp = sourceKind({
  name: 'modbus-tcp',
  settings: {
    host: text().describe('Host name or IP address of the device'),
    port: wholeNumber(1, 65_535).default(502).describe('TCP port of the device'),
    ...register,
  },
  create: async (settings, { modbus, timeoutMs }) => (await modbus()).tcpSource({ ...settings, timeoutMs }, settings),
  takesTurns: true,
  place: (settings) => `${settings.host}:${settings.port} ${registerText(settings)}`,
  advice: ({ host, port }) =>
    `check the device, its unit and the register; agent sensors scan modbus ${host}:${port} asks all units`,
});

const modbusRtu = sourceKind({
  name: 'modbus-rtu',
  settings: {
    port: absolutePath('/dev/ttyUSB0').describe('Serial port'),
    baud: wholeNumber(50, 4_000_000).default(9_600).describe('Bits per second'),
    parity: z.enum(parities).default('even').describe('Parity bit'),
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
    chip: text().describe(
      'Name of the chip. If several have this name, add the label or the address: "nvme@0000:02:00.0"',
    ),
    input: text().describe('Input of the chip, such as "temp1"'),
  },
  create: async ({ chip, input }) => (await import('./kernel/hwmon.ts')).hwmonSource(chip, input),
  place: ({ chip, input }) => `${chip} ${input}`,
  advice: () => 'agent sensors scan hwmon shows what there is',
});

const thermal = sourceKind({
  name: 'thermal',
  settings: {
    zone: text().describe(
      'Type of the thermal zone, such as "cpu-thermal", or its number. If several have this type, add the address',
    ),
  },
  create: async ({ zone }) => (await import('./kernel/hwmon.ts')).thermalSource(zone),
  place: ({ zone }) => zone,
  advice: () => 'agent sensors scan thermal shows what there is',
});

const iio = sourceKind({
  name: 'iio',
  settings: {
    device: text().describe(
      'Name of the device. If several have this name, add the label or the address: "ads1115@0048"',
    ),
    channel: text().describe(
      'Channel, such as "in_temp". "in_temp_raw" is the number that the converter counts, without a unit',
    ),
  },
  create: async ({ device, channel }) => (await import('./kernel/iio.ts')).iioSource(device, channel),
  place: ({ device, channel }) => `${device} ${channel}`,
  advice: () => 'agent sensors scan iio shows what there is',
});

const w1 = sourceKind({
  name: 'w1',
  settings: { device: text().describe('Thermometer on the 1-Wire bus, such as "28-0316a2795ee7"') },
  create: async ({ device }) => (await import('./kernel/w1.ts')).w1Source(device),
  place: ({ device }) => device,
  advice: () => 'agent sensors scan w1 shows what there is',
});

const serial = sourceKind({
  name: 'serial',
  settings: {
    port: absolutePath('/dev/ttyUSB0').describe('Serial port'),
    baud: wholeNumber(50, 4_000_000).default(115_200).describe('Bits per second'),
    parity: z.enum(parities).default('none').describe('Parity bit'),
    pattern: text()
      .refine(isPattern, 'a regular expression')
      .optional()
      .describe(
        'Regular expression whose named groups, or first group, are the reading. By default, a line is a number, JSON, or key=value pairs',
      ),
    idle_timeout: duration('1s', '1d').default('5m').describe('Reopens a port on which nothing arrives for this time'),
  },
  create: async ({ pattern, ...line }, { openLine }) => {
    const { serialSource } = await import('./serial.ts');
    const expression = pattern === undefined ? undefined : new RegExp(pattern);
    return serialSource({ ...line, pattern: expression }, openLine);
  },
  place: ({ port }) => port,
  speaks: () => true,
});

function isPattern(value: string): boolean {
  return undefinedIfThrows(isSyntaxError, () => new RegExp(value)) !== undefined;
}

const gpio = sourceKind({
  name: 'gpio',
  settings: {
    chip: text().describe('GPIO chip, such as "gpiochip0"'),
    line: wholeNumber(0, 4_095).describe('Number of the line'),
    version: z.literal([1, 2], { error: '1 or 2' }).default(1).describe('Version of the installed libgpiod tools'),
  },
  create: async ({ chip, line, version }, { timeoutMs }) =>
    (await import('./gpio.ts')).gpioSource(chip, line, version, timeoutMs),
  place: ({ chip, line }) => `${chip} line ${line}`,
  advice: () => 'gpioinfo, of the package gpiod, shows the chips and their lines',
});

const file = sourceKind({
  name: 'file',
  settings: { path: absolutePath('/run/level').describe('File that contains the reading') },
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
  settings: { metric: z.enum(metrics).describe('What to measure; "agent" is statistics of the agent, as JSON') },
  create: async ({ metric }, deps) => (await import('./system.ts')).systemSource(metric, deps),
  place: ({ metric }) => metric,
});

/** All sources; `kind` of a `source` names one of them. */
export const sources = [exec, mqtt, modbusTcp, modbusRtu, hwmon, thermal, iio, w1, serial, gpio, file, system] as const;
