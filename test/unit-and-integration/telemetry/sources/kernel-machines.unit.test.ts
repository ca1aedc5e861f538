import { describe, expect, test } from 'vitest';

import { scanKernel } from '../../../../src/telemetry/scan/scan-kernel.ts';
import { hwmonSource, thermalSource } from '../../../../src/telemetry/sources/kernel/hwmon.ts';
import { iioSource } from '../../../../src/telemetry/sources/kernel/iio.ts';
import type { PolledSource } from '../../../../src/telemetry/sources/source.ts';
import type { SystemMetric } from '../../../../src/telemetry/sources/sources.ts';
import { systemSource } from '../../../../src/telemetry/sources/system.ts';
import * as machines from '../../../fakes/sysfs/machines.ts';
import { SysfsTree } from '../../../fakes/sysfs/sysfs-tree.ts';
import type { Machine } from '../../../fakes/sysfs/sysfs-tree.ts';

const forever = new AbortController().signal;
const system = (metric: SystemMetric, root: string): PolledSource =>
  systemSource(metric, { root, diskPath: root, agentFigures: () => ({}) });

async function read(machine: Machine, source: (root: string) => PolledSource): Promise<unknown> {
  using tree = new SysfsTree(machine);
  return await source(tree.root).read(forever);
}

describe('a name that several devices have', () => {
  test('is refused with the names that tell them apart', async () => {
    const tried = read(machines.twoNvme([2, 3]), (root) => hwmonSource('nvme', 'temp1', root));
    await expect(tried).rejects.toThrow('2 devices are called nvme: nvme@0000:02:00.0, nvme@0000:55:00.0');
  });

  test.each<[number, number]>([
    [2, 3],
    [9, 10],
    [3, 2],
  ])('is read by its address, whatever numbers the kernel gives: %i, %i', async (...numbers) => {
    const machine = machines.twoNvme(numbers);
    expect(await read(machine, (root) => hwmonSource('nvme@0000:02:00.0', 'temp1', root))).toBe(30.85);
    expect(await read(machine, (root) => hwmonSource('nvme@0000:55:00.0', 'temp1', root))).toBe(70.85);
  });

  test.each(['nvme@nvme0', 'nvme@hwmon2', 'nvme@0000:03:00.0', 'nvme@', 'sata@0000:02:00.0'])(
    'is not found by a number of this boot, or by another address: %s',
    async (name) => {
      const tried = read(machines.twoNvme([2, 3]), (root) => hwmonSource(name, 'temp1', root));
      await expect(tried).rejects.toThrow(`no chip ${name}; there is nvme, nvme`);
    },
  );

  test('is refused where an address belongs to both', async () => {
    const tried = read(machines.twoNvme([2, 3]), (root) => hwmonSource('nvme@pci0000:00', 'temp1', root));
    await expect(tried).rejects.toThrow('2 devices are called nvme@pci0000:00');
  });

  test('is refused without a proposal where nothing tells the devices apart', async () => {
    const files = (n: number) => ({
      [`sys/class/hwmon/hwmon${n}/name`]: 'nvme',
      [`sys/class/hwmon/hwmon${n}/temp1_input`]: '1',
    });
    const tried = read({ source: '', files: { ...files(2), ...files(3) } }, (root) =>
      hwmonSource('nvme', 'temp1', root),
    );
    await expect(tried).rejects.toThrow('2 devices are called nvme: hwmon2 (has no address), hwmon3 (has no address)');
  });

  test.each<[string, Machine, (root: string) => PolledSource, unknown]>([
    ['processors', machines.twoSockets, (root) => hwmonSource('coretemp@coretemp.1', 'temp1', root), 61],
    [
      'disks by their own identifier',
      machines.twoDisks,
      (root) => hwmonSource('drivetemp@naa.50014ee2b2ab', 'temp1', root),
      32,
    ],
    ['thermal zones by what ACPI calls them', machines.miniPc, (root) => thermalSource('acpitz@LNXTHERM:01', root), 20],
    [
      'converters by their I2C address',
      machines.iioBoard,
      (root) => iioSource('ads1115@1-0049', 'in_voltage0', root),
      250,
    ],
  ])('tells %s apart', async (_, machine, source, value) => {
    expect(await read(machine, source)).toBe(value);
  });

  // Regression: the scan proposed the number of a bus, which another adapter had after the next boot.
  test('is proposed without the number of its bus, which a boot may change', async () => {
    using tree = new SysfsTree(machines.twoAdapters([3, 4]));
    const { found } = await scanKernel('iio', forever, tree.root);
    const names = found.map(({ title }) => title.replace(' in_voltage0', ''));
    expect(names).toEqual(['ads1115@1.1:1.0/0048', 'ads1115@0049', 'ads1115@1.2:1.0']);
    for (const [index, value] of [1_000, 1_500, 2_000].entries()) {
      const source = (root: string): PolledSource => iioSource(names[index] ?? '', 'in_voltage0', root);
      expect(await read(machines.twoAdapters([4, 3]), source)).toBe(value);
    }
  });

  test('is proposed without the number of its USB bus, which a boot may change', async () => {
    using tree = new SysfsTree(machines.twoControllers([1, 2]));
    const { found } = await scanKernel('hwmon', forever, tree.root);
    const names = found.map(({ title }) => title.replace(' temp1', ''));
    expect(names).toEqual(['kraken@0000:00:14.0', 'kraken@0000:00:15.0']);
    const next = machines.twoControllers([2, 1]);
    const values = names.map(async (name) => read(next, (root) => hwmonSource(name, 'temp1', root)));
    expect(await Promise.all(values)).toEqual([21, 22]);
  });

  test.each(['ads1115@1-0049', 'ads1115@0049', 'ads1115@30a30000.i2c/0049'])('is found as %s', async (name) => {
    expect(await read(machines.iioBoard, (root) => iioSource(name, 'in_voltage0', root))).toBe(250);
  });

  test('is distinguished by its label first', async () => {
    using tree = new SysfsTree(machines.twoSockets);
    tree.write({ 'sys/devices/platform/coretemp.1/hwmon/hwmon1/label': 'lower socket\n' });
    expect(await hwmonSource('coretemp@lower socket', 'temp1', tree.root).read(forever)).toBe(61);
    const { found } = await scanKernel('hwmon', forever, tree.root);
    expect(found.map(({ title }) => title)).toContain('coretemp@lower socket temp1 (Physical id 1)');
  });
});

test('does not read 0 °C of a shorted 1-Wire bus from a chip', async () => {
  using tree = new SysfsTree(machines.oneWire);
  const device = 'sys/devices/w1_bus_master1/28-0316a2795ee8';
  const zeros = '00 '.repeat(9);
  const w1_slave = `${zeros}: crc=00 YES\n${zeros}t=0\n`;
  tree.write({ [`${device}/hwmon/hwmon1/temp1_input`]: '0\n', [`${device}/w1_slave`]: w1_slave });
  const tried = hwmonSource('w1_slave_temp@28-0316a2795ee8', 'temp1', tree.root).read(forever);
  await expect(tried).rejects.toThrow('no measurement with a valid checksum');
});

test.each([
  [
    'twoNvme',
    'hwmon',
    ['nvme@0000:02:00.0 temp1 (Composite): 30.85 °C', 'nvme@0000:55:00.0 temp1 (Composite): 70.85 °C'],
  ],
  [
    'oneWire',
    'hwmon',
    [
      'w1_slave_temp@28-0316a2795ee7 temp1: undefined °C',
      'w1_slave_temp@28-0316a2795ee8 temp1: 85.062 °C',
      'w1_slave_temp@3b-000000000085 temp1: 85 °C',
      'lm75 temp1: 85 °C',
    ],
  ],
  ['twoDisks', 'hwmon', ['drivetemp@naa.50014ee2b1ab temp1: 31 °C', 'drivetemp@naa.50014ee2b2ab temp1: 32 °C']],
  [
    'labelled',
    'hwmon',
    [
      'pmbus curr1: 1.25 A',
      'pmbus in1 (vin): 230.5 V',
      'sfp_eth2 power2: 0.000002 W',
      'sfp_eth2 temp1: -5.375 °C',
      'amdgpu power1 (slowPPT): 6 W',
    ],
  ],
  ['rk3588', 'thermal', expect.arrayContaining(['bigcore1-thermal: 41.6 °C', 'npu-thermal: 36.1 °C'])],
  ['miniPc', 'thermal', ['acpitz@LNXTHERM:00: 16.8 °C', 'acpitz@LNXTHERM:01: 20 °C', 'iwlwifi_1: 40 °C']],
  ['beagleBone', 'iio', ['TI-am335x-adc in_voltage0_raw: 1713', 'TI-am335x-adc in_voltage1_raw: 4001']],
] as const)('of %s a scan of %s proposes what stays from boot to boot', async (name, kind, expected) => {
  using tree = new SysfsTree(machines.machines[name] ?? machines.faulty);
  const { found } = await scanKernel(kind, forever, tree.root);
  expect(
    found.map(({ title, reading, unit }) => `${title}: ${reading}${unit === undefined ? '' : ` ${unit}`}`),
  ).toEqual(expected);
  expect(found.every(({ sensor }) => sensor !== undefined)).toBe(true);
});

describe('an IIO channel', () => {
  const { iioBoard } = machines;
  test.each([
    ['xadc', 'in_temp0', 68_410.67],
    ['xadc', 'in_voltage4_vccpaux', 1_798.83],
    ['ads1115@1-0048', 'in_voltage0-voltage1', 1_500],
    ['ads1115@1-0048', 'in_voltage0', 500],
    ['scl3300', 'in_accel_z', 9.798],
    ['scl3300', 'in_accel_x_peak', 1],
    ['scl3300', 'in_incli_x', 1.099],
    ['si7020', 'in_temp', 25_268.33],
    ['si7020', 'in_humidityrelative', 30_944.82],
    ['itg3200', 'in_anglvel_x', 0.1],
    ['itg3200', 'in_voltage0_mean', 20],
    ['itg3200', 'in_proximity', 0.077],
    ['ads1115@1-0048', 'in_voltage0_raw', 4_000],
  ])('%s %s has its own or its shared scale', async (device, channel, value) => {
    expect(await read(iioBoard, (root) => iioSource(device, channel, root))).toBeCloseTo(value, 2);
  });

  test('that is a count without a scale is refused, and read where the count is wanted', async () => {
    const tried = read(machines.beagleBone, (root) => iioSource('TI-am335x-adc', 'in_voltage0', root));
    await expect(tried).rejects.toThrow(
      'count without a unit; to send the count itself, name the channel in_voltage0_raw',
    );
    expect(await read(machines.beagleBone, (root) => iioSource('TI-am335x-adc', 'in_voltage0_raw', root))).toBe(1_713);
  });

  test('with several numbers is not read as its first', async () => {
    const tried = read(iioBoard, (root) => iioSource('itg3200', 'in_rot_quaternion', root));
    await expect(tried).rejects.toThrow('“12 -3 40 1000” is not a number');
  });
});

describe('what an input shows without measuring', () => {
  test.each([
    ['kraken', 'temp1', 'temp1_fault: the chip reports a fault'],
    ['nct6793', 'temp2', '-128 °C is not a measurement'],
    ['nct6793', 'temp3', '3892313.987 °C is not a measurement'],
    ['nct6793', 'fan1', '4294967295 rpm is not a measurement'],
    ['thinkpad', 'fan1', 'fan1_input: 65535 rpm is the code for a missing fan'],
    ['nct6793', 'humidity1', '330.2 % is not a measurement'],
    ['nct6793', 'in0', 'in0_enable: this input is switched off'],
  ])('is refused: %s %s', async (chip, input, why) => {
    await expect(read(machines.faulty, (root) => hwmonSource(chip, input, root))).rejects.toThrow(why);
  });

  test.each([
    ['kraken', 'fan1', 834],
    ['nct6793', 'temp1', 45],
    ['thinkpad', 'fan2', 65_534],
    ['nct6793', 'energy1', 65_261],
  ])('does not keep another input from being read: %s %s', async (chip, input, value) => {
    expect(await read(machines.faulty, (root) => hwmonSource(chip, input, root))).toBe(value);
  });

  test('is shown by a scan', async () => {
    using tree = new SysfsTree(machines.faulty);
    const { found } = await scanKernel('hwmon', forever, tree.root);
    const fault = found.find(({ title }) => title === 'kraken temp1');
    expect(fault).toMatchObject({
      problem: 'unreadable',
      reading: undefined,
      why: expect.stringContaining('fault') as string,
    });
  });
});

describe('the temperature of the processor', () => {
  test.each<[string, Machine, number]>([
    ['by the type of its zone', machines.laptop, 65],
    ['by its chip where no zone is its own', machines.miniPc, 40.4],
    ['as the highest of several zones', machines.rk3588, 41.6],
    ['as the highest of several processors', machines.twoSockets, 61],
  ])('is found %s', async (_, machine, value) => {
    expect(await read(machine, (root) => system('cpu_temperature', root))).toBe(value);
  });

  test('is the only zone of a machine, unless its type is known to be another one', async () => {
    const only = (type: string) => ({
      source: '',
      files: { 'sys/class/thermal/thermal_zone0/type': type, 'sys/class/thermal/thermal_zone0/temp': '50000' },
    });
    expect(await read(only('bcm2835_thermal'), (root) => system('cpu_temperature', root))).toBe(50);
    await expect(read(only('acpitz'), (root) => system('cpu_temperature', root))).rejects.toThrow('(acpitz)');
  });
});

test.each<[string, Machine, number, number]>([
  ['hardware, without what runs above it', machines.bridged, 15_200, 1_630],
  ['Ethernet, without the PPP above it', machines.pppoe, 200, 30],
  ['the interfaces of a container, without its bridge', machines.container, 200, 30],
])('bytes are counted once: %s', async (_, machine, received, sent) => {
  expect(await read(machine, (root) => system('network_received_bytes', root))).toBe(received);
  expect(await read(machine, (root) => system('network_sent_bytes', root))).toBe(sent);
});
