import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { expect, test } from 'vitest';

import { fileSource } from '../../../../src/telemetry/sources/file.ts';
import { hwmonSource, thermalSource } from '../../../../src/telemetry/sources/kernel/hwmon.ts';
import { iioSource } from '../../../../src/telemetry/sources/kernel/iio.ts';
import { w1Source } from '../../../../src/telemetry/sources/kernel/w1.ts';
import type { PolledSource } from '../../../../src/telemetry/sources/source.ts';
import type { SystemMetric } from '../../../../src/telemetry/sources/sources.ts';
import { systemSource } from '../../../../src/telemetry/sources/system.ts';

const forever = new AbortController().signal;

/** As on a Raspberry Pi 4 with a BME280, a DS18B20 and an INA219. */
const board = {
  'sys/class/hwmon/hwmon0/name': 'cpu_thermal\n',
  'sys/class/hwmon/hwmon0/temp1_input': '48312\n',
  'sys/class/hwmon/hwmon1/name': 'rpi_volt\n',
  'sys/class/hwmon/hwmon1/in0_lcrit_alarm': '0\n',
  'sys/class/hwmon/hwmon2/name': 'ina219\n',
  'sys/class/hwmon/hwmon2/in1_input': '5080\n',
  'sys/class/hwmon/hwmon2/curr1_input': '412\n',
  'sys/class/hwmon/hwmon2/power1_input': '2090000\n',
  'sys/class/hwmon/hwmon3/fan1_input': '0\n',
  'sys/class/thermal/cooling_device0/type': 'gpio-fan\n',
  'sys/class/thermal/thermal_zone0/type': 'cpu-thermal\n',
  'sys/class/thermal/thermal_zone0/temp': '48312\n',
  'sys/bus/iio/devices/iio:device0/name': 'bme280\n',
  'sys/bus/iio/devices/iio:device0/in_temp_input': '21450\n',
  'sys/bus/iio/devices/iio:device1/name': 'mcp3204\n',
  'sys/bus/iio/devices/iio:device1/in_voltage0_raw': '1201\n',
  'sys/bus/iio/devices/iio:device1/in_voltage1_raw': '1200\n',
  'sys/bus/iio/devices/iio:device1/in_voltage1_scale': '2\n',
  'sys/bus/iio/devices/iio:device1/in_voltage_scale': '0.5\n',
  'sys/bus/iio/devices/iio:device1/in_voltage_offset': '-1\n',
  // Linux, drivers/iio/chemical/scd4x.c, scd4x_read_raw: the scale of a concentration is 100 millionths
  'sys/bus/iio/devices/iio:device2/name': 'scd41\n',
  'sys/bus/iio/devices/iio:device2/in_concentration_co2_raw': '612\n',
  'sys/bus/iio/devices/iio:device2/in_concentration_co2_scale': '0.000100\n',
  'sys/bus/w1/devices/28-0316a2795ee7/temperature': '21062\n',
  'sys/bus/w1/devices/28-000000000085/temperature': '85000\n',
  'sys/bus/w1/devices/28-000000000127/temperature': '127937\n',
  'sys/bus/w1/devices/28-000000000300/temperature': '-300000\n',
  'sys/bus/w1/devices/3b-000000000850/temperature': '850250\n',
  'sys/bus/w1/devices/3b-000000000085/temperature': '85000\n',
  'sys/bus/w1/devices/3b-000000002047/temperature': '2047750\n',
  'sys/bus/w1/devices/3b-000000000127/temperature': '127937\n',
  'sys/bus/w1/devices/28-000000000126/temperature': '-127000\n',
  'sys/bus/w1/devices/26-000001f2d9a1/temperature': '6400\n',
  'sys/bus/w1/devices/26-0000000000f6/temperature': '-2560\n',
  'sys/bus/w1/devices/7e-000000000001/temperature': '21062\n',
  // Linux 6.12, drivers/w1/slaves/w1_therm.c: nine zeros of a shorted wire have a valid checksum
  'sys/bus/w1/devices/28-000000000058/temperature': '0\n',
  'sys/bus/w1/devices/28-000000000058/w1_slave':
    '00 00 00 00 00 00 00 00 00 : crc=00 YES\n00 00 00 00 00 00 00 00 00 t=0\n',
  'sys/bus/w1/devices/28-000000000059/temperature': '0\n',
  'sys/bus/w1/devices/28-000000000059/w1_slave':
    '00 00 4b 46 7f ff 0c 10 1c : crc=1c YES\n00 00 4b 46 7f ff 0c 10 1c t=0\n',
  // Linux 4.19, drivers/w1/slaves/w1_therm.c, w1_slave_show()
  'sys/bus/w1/devices/28-000000000419/w1_slave':
    '72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n',
  'sys/bus/w1/devices/28-0000000419c0/w1_slave':
    '5e ff 4b 46 7f ff 02 10 4d : crc=4d YES\n5e ff 4b 46 7f ff 02 10 4d t=-10125\n',
  'sys/bus/w1/devices/28-0000000419c1/w1_slave':
    'ff ff ff ff ff ff ff ff ff : crc=c9 NO\n72 01 4b 46 7f ff 0e 10 57 t=23125\n',
  'sys/bus/w1/devices/28-0000000419c2/w1_slave':
    '00 00 00 00 00 00 00 00 00 : crc=00 YES\n00 00 00 00 00 00 00 00 00 t=0\n',
  'proc/loadavg': '0.52 0.58 0.59 1/389 12345\n',
  'proc/uptime': '35021.17 69000.11\n',
  'proc/meminfo': 'MemTotal:        4000 kB\nMemFree:          500 kB\nMemAvailable:    1000 kB\n',
  'proc/net/dev':
    'Inter-|   Receive                                                |  Transmit\n' +
    ' face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n' +
    '    lo: 1000 1 0 0 0 0 0 0 1000 1 0 0 0 0 0 0\n' +
    '  eth0: 200 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n' +
    'wlan0:5000 1 0 0 0 0 0 0 600 1 0 0 0 0 0 0\n',
  'sys/devices/platform/soc/soc:firmware/get_throttled': '50005\n',
  'run/level.json': '{"level": 4.2}\n',
  'run/empty': '',
  'run/long': '7 '.repeat(40_000),
};

class Board implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), 'board-'));

  constructor() {
    for (const [path, text] of Object.entries(board)) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      writeFileSync(join(this.root, path), text);
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

const system = (metric: SystemMetric, root: string): PolledSource =>
  systemSource(metric, { root, diskPath: root, agentFigures: () => ({ waiting: 3 }) });

test.each<[string, unknown, (root: string) => PolledSource]>([
  ['a temperature of a chip', 48.312, (root) => hwmonSource('cpu_thermal', 'temp1', root)],
  ['a voltage', 5.08, (root) => hwmonSource('ina219', 'in1', root)],
  ['a current', 0.412, (root) => hwmonSource('ina219', 'curr1', root)],
  ['a power', 2.09, (root) => hwmonSource('ina219', 'power1', root)],
  ['a thermal zone by its type', 48.312, (root) => thermalSource('cpu-thermal', root)],
  ['a thermal zone by its number', 48.312, (root) => thermalSource('0', root)],
  ['an IIO channel that is processed', 21_450, (root) => iioSource('bme280', 'in_temp', root)],
  ['an IIO channel with the scale of its kind', 600, (root) => iioSource('mcp3204', 'in_voltage0', root)],
  [
    'an IIO channel with a scale that is not a binary fraction',
    0.0612,
    (root) => iioSource('scd41', 'in_concentration_co2', root),
  ],
  ['an IIO channel with a scale of its own', 2_398, (root) => iioSource('mcp3204', 'in_voltage1', root)],
  ['a DS18B20', 21.062, (root) => w1Source('28-0316a2795ee7', root)],
  ['a DS18B20 at 0 °C', 0, (root) => w1Source('28-000000000059', root)],
  ['a DS18B20 on Linux before 5.8', 23.125, (root) => w1Source('28-000000000419', root)],
  ['a DS18B20 below zero on Linux before 5.8', -10.125, (root) => w1Source('28-0000000419c0', root)],
  ['a thermocouple at a MAX31850', 850.25, (root) => w1Source('3b-000000000850', root)],
  ['a DS2438, in 1/256 °C', 25, (root) => w1Source('26-000001f2d9a1', root)],
  ['a DS2438 below zero', -10, (root) => w1Source('26-0000000000f6', root)],
  ['a thermocouple at 85 °C', 85, (root) => w1Source('3b-000000000085', root)],
  ['the load', 0.52, (root) => system('load1', root)],
  ['the uptime', 35_021, (root) => system('uptime', root)],
  ['memory that is used', 75, (root) => system('memory_used_percent', root)],
  ['memory that is left', 1_024_000, (root) => system('memory_available_bytes', root)],
  ['what all interfaces but the loopback received', 5_200, (root) => system('network_received_bytes', root)],
  ['what they sent', 630, (root) => system('network_sent_bytes', root)],
  ['throttling of a Raspberry Pi', 0x50005, (root) => system('throttled', root)],
  ['figures of the agent', { waiting: 3 }, (root) => system('agent', root)],
  ['JSON in a file', { level: 4.2 }, (root) => fileSource(join(root, 'run/level.json'))],
])('reads %s', async (_name, value, source) => {
  using tree = new Board();
  expect(await source(tree.root).read(forever)).toEqual(value);
});

test('the room on a disk is plausible', async () => {
  using tree = new Board();
  const percent = Number(await system('disk_used_percent', tree.root).read(forever));
  expect(percent).toBeGreaterThanOrEqual(0);
  expect(percent).toBeLessThanOrEqual(100);
});

test.each<[string, string, (root: string) => PolledSource]>([
  ['85 °C of a sensor that has not measured', 'has not measured', (root) => w1Source('28-000000000085', root)],
  ['127.94 °C of a sensor without power', 'has not measured', (root) => w1Source('28-000000000127', root)],
  ['2047.75 °C of an open thermocouple', 'from -270 to 1768 °C', (root) => w1Source('3b-000000002047', root)],
  ['127.94 °C of a DS1825 without power', 'has not measured', (root) => w1Source('3b-000000000127', root)],
  ['-300 °C', 'from -55 to 125 °C', (root) => w1Source('28-000000000300', root)],
  ['-127 °C, which a library shows for a missing sensor', 'from -55', (root) => w1Source('28-000000000126', root)],
  ['a family without a known scale', 'known are 10, 22, 26, 28, 3b, 42', (root) => w1Source('7e-000000000001', root)],
  ['a wrong checksum on Linux before 5.8', 'valid checksum', (root) => w1Source('28-0000000419c1', root)],
  ['0 °C of a shorted wire', 'valid checksum: "00 00', (root) => w1Source('28-000000000058', root)],
  ['nine zeros on Linux before 5.8', 'valid checksum: "00 00', (root) => w1Source('28-0000000419c2', root)],
  ['a thermometer that is not there', 'ENOENT', (root) => w1Source('28-000000000404', root)],
  ['a file that is too long', 'is longer than 65536 bytes', (root) => fileSource(join(root, 'run/long'))],
  ['a chip that is not there', 'no chip nct6775', (root) => hwmonSource('nct6775', 'temp1', root)],
  ['an input that is not there', 'temp9_input', (root) => hwmonSource('cpu_thermal', 'temp9', root)],
  ['a zone that is not there', 'no zone gpu', (root) => thermalSource('gpu', root)],
  ['a device that is not there', 'no device ads1115', (root) => iioSource('ads1115', 'in_voltage0', root)],
  ['a file that is empty', 'is empty', (root) => fileSource(join(root, 'run/empty'))],
  ['a machine without IIO', 'no device x', () => iioSource('x', 'in_temp', '/nowhere')],
])('refuses %s, and says why', async (_name, why, source) => {
  using tree = new Board();
  await expect(source(tree.root).read(forever)).rejects.toThrow(why);
});

test.each([
  {
    what: 'chip',
    path: 'sys/class/hwmon/hwmon0/name',
    why: 'no chip nct6775',
    later: (root: string) => hwmonSource('ina219', 'in1', root),
    missing: (root: string) => hwmonSource('nct6775', 'temp1', root),
  },
  {
    what: 'zone',
    path: 'sys/class/thermal/thermal_zone/type',
    why: 'no zone gpu',
    later: (root: string) => thermalSource('cpu-thermal', root),
    missing: (root: string) => thermalSource('gpu', root),
  },
  {
    what: 'IIO device',
    path: 'sys/bus/iio/devices/iio:device0/name',
    why: 'no device ads1115',
    later: (root: string) => iioSource('mcp3204', 'in_voltage0', root),
    missing: (root: string) => iioSource('ads1115', 'in_voltage0', root),
  },
])('one $what that does not say its name hides none behind it', async ({ path, why, later, missing }) => {
  using tree = new Board();
  rmSync(join(tree.root, path), { force: true });
  mkdirSync(join(tree.root, path), { recursive: true });
  expect(await later(tree.root).read(forever)).toEqual(expect.any(Number));
  await expect(missing(tree.root).read(forever)).rejects.toThrow(new RegExp(`${why}.*${path}`));
});
