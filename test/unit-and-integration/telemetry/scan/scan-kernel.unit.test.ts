import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { parseConfig } from '../../../../src/config/read-config.ts';
import { asReport } from '../../../../src/daemon/support/scan.ts';
import { scanKernel } from '../../../../src/telemetry/scan/scan-kernel.ts';
import { scanSerial } from '../../../../src/telemetry/scan/scan-serial.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const forever = new AbortController().signal;
const base = '[service]\nurl = "https://things.example.com"\n[device]\ndevice_type = "b"\n';

let root: string;

beforeEach(() => {
  root = folderUntilTestEnds();
});

function write(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

async function scan(kind: 'hwmon' | 'thermal' | 'iio' | 'w1' | 'serial') {
  return kind === 'serial' ? scanSerial(forever, root) : scanKernel(kind, forever, root);
}

test.each(['hwmon', 'thermal', 'iio', 'w1', 'serial'] as const)(
  'where there is no %s nothing is found',
  async (kind) => {
    expect(await scan(kind)).toEqual({ found: [], isCut: false });
  },
);

test('each input of a chip is read as its source would, and proposed', async () => {
  write({
    'sys/class/hwmon/hwmon0/name': 'cpu_thermal\n',
    'sys/class/hwmon/hwmon0/temp1_input': '48312\n',
    'sys/class/hwmon/hwmon0/temp1_crit': '110000\n',
    'sys/class/hwmon/hwmon1/name': 'ina219\n',
    'sys/class/hwmon/hwmon1/in1_input': 'broken\n',
    'sys/class/hwmon/hwmon2/temp1_input': '1\n',
  });
  expect((await scan('hwmon')).found).toEqual([
    {
      title: 'cpu_thermal temp1',
      reading: '48.312',
      unit: '°C',
      sensor: {
        event: 'cpu_thermal_temp1',
        every: '10s',
        source: { kind: 'hwmon', chip: 'cpu_thermal', input: 'temp1' },
      },
    },
    expect.objectContaining({ title: 'ina219 in1', reading: undefined, unit: 'V', problem: 'unreadable' }),
  ]);
});

test('proposes none of several chips with one name that nothing tells apart', async () => {
  for (const number of [0, 1]) {
    write({
      [`sys/class/hwmon/hwmon${number}/name`]: 'nvme',
      [`sys/class/hwmon/hwmon${number}/temp1_input`]: `${number}`,
    });
  }
  const { found } = await scan('hwmon');
  expect(found.map(({ problem, sensor }) => [problem, sensor !== undefined])).toEqual([
    ['same-name', false],
    ['same-name', false],
  ]);
});

test('what the kernel gives in thousandths is scaled', async () => {
  write({
    'sys/bus/iio/devices/iio:device0/name': 'bme280\n',
    'sys/bus/iio/devices/iio:device0/in_temp_input': '21450\n',
    'sys/bus/iio/devices/iio:device0/in_pressure_raw': '2\n',
    'sys/bus/iio/devices/iio:device0/in_pressure_scale': '50\n',
  });
  const { found } = await scan('iio');
  expect(found.map(({ title, reading, unit, raw, sensor }) => [title, reading, unit, raw, sensor?.scale])).toEqual([
    ['bme280 in_pressure', '100', 'kPa', undefined, undefined],
    ['bme280 in_temp', '21.45', '°C', '21450 m°C', 0.001],
  ]);
});

test('thermometers on a wire are found, and one without a measurement is reported as unreadable', async () => {
  write({
    'sys/bus/w1/devices/28-0316a2795ee7/temperature': '21062\n',
    'sys/bus/w1/devices/28-000000000085/temperature': '85000\n',
    'sys/bus/w1/devices/26-000001f2d9a1/temperature': '6400\n',
    'sys/bus/w1/devices/7e-000000000001/temperature': '21062\n',
    'sys/bus/w1/devices/28-000000000419/w1_slave':
      '72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n',
    'sys/bus/w1/devices/w1_bus_master1/w1_master_name': 'x\n',
  });
  const { found } = await scan('w1');
  expect(found.map(({ title, reading, problem }) => [title, reading, problem])).toEqual([
    ['26-000001f2d9a1', '25', undefined],
    ['28-000000000085', undefined, 'unreadable'],
    ['28-000000000419', '23.125', undefined],
    ['28-0316a2795ee7', '21.062', undefined],
    ['7e-000000000001', undefined, 'unreadable'],
  ]);
});

test('serial ports are those with hardware, by the name that stays; the console is left out', async () => {
  write({
    'sys/class/tty/ttyUSB0/device/uevent': '',
    'sys/class/tty/ttyS0/device/uevent': '',
    'sys/class/tty/ttyS0/type': '4\n',
    'sys/class/tty/ttyS1/device/uevent': '',
    'sys/class/tty/ttyS1/type': '0\n',
    'sys/class/tty/tty1/dev': '4:1\n',
    'sys/class/tty/console/active': 'tty0 ttyS0\n',
    'dev/ttyUSB0': '',
  });
  mkdirSync(join(root, 'dev/serial/by-id'), { recursive: true });
  symlinkSync('../../ttyUSB0', join(root, 'dev/serial/by-id/usb-FTDI_A5-port0'));
  const { found } = await scan('serial');
  expect(found.map(({ title, problem, sensor }) => [title, problem, sensor?.event])).toEqual([
    ['/dev/ttyS0', 'console', undefined],
    ['/dev/serial/by-id/usb-FTDI_A5-port0', undefined, 'usb_ftdi_a5_port0'],
  ]);
});

test('proposes serial ports by the place of their plug where adapters share a name', async () => {
  for (const [index, tty] of ['ttyUSB0', 'ttyUSB1'].entries()) {
    write({ [`sys/class/tty/${tty}/device/uevent`]: '', [`dev/${tty}`]: '' });
    mkdirSync(join(root, 'dev/serial/by-path'), { recursive: true });
    symlinkSync(`../../${tty}`, join(root, `dev/serial/by-path/pci-0000:00:14.0-usb-0:${index + 1}:1.0-port0`));
  }
  mkdirSync(join(root, 'dev/serial/by-id'), { recursive: true });
  symlinkSync('../../ttyUSB1', join(root, 'dev/serial/by-id/usb-1a86_USB_Serial-if00-port0'));
  expect((await scan('serial')).found.map(({ title }) => title)).toEqual([
    '/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0-port0',
    '/dev/serial/by-path/pci-0000:00:14.0-usb-0:2:1.0-port0',
  ]);
});

describe('names from outside', () => {
  test('are not proposed where one could not see what they are, and bounded', async () => {
    const names = ['\u001B[31mred', 'a\u202Eb', 'x'.repeat(50_000), '', 'a"b\\c'];
    for (const [index, name] of names.entries()) {
      write({ [`sys/class/hwmon/hwmon${index}/name`]: name, [`sys/class/hwmon/hwmon${index}/temp1_input`]: '1000' });
    }
    const { found } = await scan('hwmon');
    expect(found.map(({ problem }) => problem)).toEqual(['odd-name', 'odd-name', 'odd-name', 'odd-name', undefined]);
    expect(Math.max(...found.map(({ title }) => title.length))).toBeLessThan(300);
  });

  test('and special files at their paths cause no delay', async () => {
    mkdirSync(join(root, 'sys/class/hwmon/hwmon0/temp1_input'), { recursive: true });
    execFileSync('mkfifo', [join(root, 'sys/class/hwmon/hwmon0/name')]);
    write({ 'sys/class/hwmon/hwmon1/name': 'chip' });
    execFileSync('mkfifo', [join(root, 'sys/class/hwmon/hwmon1/temp1_input')]);
    expect((await scan('hwmon')).found).toMatchObject([{ title: 'chip temp1', problem: 'unreadable' }]);
  });

  test('are bounded in number', async () => {
    write({ 'sys/class/hwmon/hwmon0/name': 'chip' });
    for (let input = 1; input <= 300; input += 1) write({ [`sys/class/hwmon/hwmon0/temp${input}_input`]: '1000' });
    const { found, isCut } = await scan('hwmon');
    expect([found.length, isCut]).toEqual([256, true]);
  });
});

test('all that is proposed is accepted as a configuration, whatever the names are, and events differ', async () => {
  write({
    'sys/class/hwmon/hwmon0/name': String.raw`a"b\c 'd' #[x]`,
    'sys/class/hwmon/hwmon0/temp1_input': '1000',
    'sys/class/hwmon/hwmon1/name': 'a-b/c.d.x',
    'sys/class/hwmon/hwmon1/temp1_input': '1000',
    'sys/bus/iio/devices/iio:device0/name': 'bme280\n',
    'sys/bus/iio/devices/iio:device0/in_temp_input': '21450\n',
    'sys/bus/w1/devices/28-0316a2795ee7/temperature': '21062\n',
    'sys/class/tty/ttyUSB0/device/uevent': '',
  });
  const reports = [];
  for (const kind of ['hwmon', 'iio', 'w1', 'serial'] as const) reports.push(...(await scan(kind)).found.map(asReport));
  const { sensors } = parseConfig('proposed', `${base}${reports.map(({ toml }) => toml).join('\n')}`);
  expect(sensors.map(({ source }) => source.kind)).toEqual(['hwmon', 'hwmon', 'iio', 'w1', 'serial']);
  expect(sensors[0]?.source).toMatchObject({ chip: String.raw`a"b\c 'd' #[x]` });
  expect(new Set(sensors.map(({ event }) => event)).size).toBe(5);
});
