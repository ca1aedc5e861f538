import { device, machine } from './sysfs-tree.ts';
import type { Machine } from './sysfs-tree.ts';

/*
 * Machines as others published them: paths, names and values are theirs, reduced to what a sensor needs. Names of
 * attributes were checked against Documentation/hwmon/sysfs-interface.rst, Documentation/ABI/testing/sysfs-bus-iio and
 * drivers/iio/industrialio-core.c of Linux.
 */

const hwmon = (place: string, number: number, attributes: Readonly<Record<string, string>>) =>
  device(`${place}/hwmon${number}`, `sys/class/hwmon/hwmon${number}`, attributes);
const zone = (number: number, type: string, temp: string) =>
  device(`virtual/thermal/thermal_zone${number}`, `sys/class/thermal/thermal_zone${number}`, { type, temp });
const iio = (place: string, number: number, attributes: Readonly<Record<string, string>>) =>
  device(`${place}/iio:device${number}`, `sys/bus/iio/devices/iio:device${number}`, attributes);

const nvmePaths = [
  'pci0000:00/0000:00:1b.0/0000:02:00.0/nvme/nvme0',
  'pci0000:00/0000:00:1d.0/0000:55:00.0/nvme/nvme1',
];

/** Two drives with one name; this boot gives them these `numbers`. Source: vmatare/thinkfan#157. */
export function twoNvme(numbers: readonly [number, number]): Machine {
  const [first = '', second = ''] = nvmePaths;
  return machine(
    'vmatare/thinkfan#157',
    hwmon(first, numbers[0], { name: 'nvme', temp1_input: '30850', temp1_label: 'Composite' }),
    hwmon(second, numbers[1], { name: 'nvme', temp1_input: '70850', temp1_label: 'Composite' }),
    { files: {}, links: { [`sys/devices/${first}/hwmon${numbers[0]}/device`]: `sys/devices/${first}` } },
  );
}

/** Two processors with one name, and a chip whose numbers have gaps. Source: prometheus/node_exporter, sys.ttar. */
export const twoSockets = machine(
  'prometheus/node_exporter, collector/fixtures/sys.ttar',
  hwmon('platform/coretemp.0/hwmon', 0, { name: 'coretemp', temp1_input: '55000', temp1_label: 'Physical id 0' }),
  hwmon('platform/coretemp.1/hwmon', 1, { name: 'coretemp', temp1_input: '61000', temp1_label: 'Physical id 1' }),
  hwmon('platform/nct6775.656/hwmon', 3, { name: 'nct6779', fan2_input: '1098', in0_input: '792', in1_input: '1024' }),
  hwmon('platform/soc/18000000.wifi/ieee80211/phy0/hwmon', 8, { name: 'mt7996_phy0_0', temp1_input: '55000' }),
  hwmon('platform/soc/18000000.wifi/ieee80211/phy0/hwmon', 9, { name: 'mt7996_phy0_1', temp1_input: '56000' }),
);

/** Two disks of one controller: only the drives' own identifiers differ. Path as of drivers/hwmon/drivetemp.c. */
export const twoDisks = machine(
  'drivetemp of Linux; vpd and path as in desbma/hddfancontrol#64',
  ...[1, 2].flatMap((disk) => {
    const scsi = `pci0000:00/0000:00:17.0/ata${disk}/host${disk}/target${disk}:0:0/${disk}:0:0:0`;
    return [
      hwmon(`${scsi}/hwmon`, disk, { name: 'drivetemp', temp1_input: `${disk + 30}000` }),
      { files: { [`sys/devices/${scsi}/wwid`]: `naa.50014ee2b${disk}ab\n` } },
      { files: {}, links: { [`sys/devices/${scsi}/hwmon/hwmon${disk}/device`]: `sys/devices/${scsi}` } },
    ];
  }),
);

/** A chip that reports a fault, one whose open inputs read nonsense. Sources: freon#122, netdata#23673, it87#59. */
export const faulty = machine(
  'UshakovVasilii/gnome-shell-extension-freon#122, netdata/netdata#23673, groeck/nct6775#51',
  hwmon('pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0/0003:1E71:1714.0003/hwmon', 0, {
    name: 'kraken',
    temp1_input: '27900',
    temp1_fault: '1',
    fan1_input: '834',
    fan1_fault: '0',
  }),
  hwmon('platform/nct6775.656/hwmon', 1, {
    name: 'nct6793',
    temp1_input: '45000',
    temp2_input: '-128000',
    temp3_input: '3892313987',
    in0_input: '12000',
    in0_enable: '0',
    fan1_input: '4294967295',
    humidity1_input: '330200',
    energy1_input: '65261000000',
  }),
  // a tablet without fan (commit a10d50983f7b of Linux), and MAX31785 without power (openbmc/openbmc#1456)
  hwmon('platform/thinkpad_hwmon/hwmon', 2, { name: 'thinkpad', fan1_input: '65535', fan2_input: '65534' }),
);

/**
 * Thermometers on the 1-Wire bus as chips, DS18B20 and MAX31850, and a chip at an address that looks like a family.
 * Source: drivers/w1/w1.c of Linux, w1_family_notify(); 85 °C of a DS18B20 is what it shows after power-on (data sheet).
 */
export const oneWire = machine(
  'drivers/w1/w1.c of Linux',
  ...[
    ['w1_bus_master1/28-0316a2795ee7', '85000', 'w1_slave_temp'],
    ['w1_bus_master1/28-0316a2795ee8', '85062', 'w1_slave_temp'],
    ['w1_bus_master1/3b-000000000085', '85000', 'w1_slave_temp'],
    ['platform/soc/fe804000.i2c/i2c-28/28-0048', '85000', 'lm75'],
  ].flatMap(([place = '', temp1_input = '', name = ''], number) => [
    hwmon(`${place}/hwmon`, number, { name, temp1_input }),
    { files: {}, links: { [`sys/devices/${place}/hwmon/hwmon${number}/device`]: `sys/devices/${place}` } },
  ]),
);

/** Zone 0 is not the processor. Source: cockpit-project/cockpit#17160. */
export const laptop = machine(
  'cockpit-project/cockpit#17160',
  ...['acpitz', 'INT3400 Thermal', 'SEN1', 'pch_cannonlake', 'B0D4', 'iwlwifi_1', 'x86_pkg_temp'].map((type, number) =>
    zone(number, type, number === 6 ? '65000' : '27800'),
  ),
);

/** Two zones of one type, none of the processor; a chip that is. Sources: CasaOS#727, sbc-bench#33. */
export const miniPc = machine(
  'IceWhaleTech/CasaOS#727, ThomasKaiser/sbc-bench#33',
  zone(0, 'acpitz', '16800'),
  zone(1, 'acpitz', '20000'),
  zone(2, 'iwlwifi_1', '40000'),
  { files: {}, links: { 'sys/devices/virtual/thermal/thermal_zone0/device': 'sys/devices/LNXSYSTM:00/LNXTHERM:00' } },
  { files: {}, links: { 'sys/devices/virtual/thermal/thermal_zone1/device': 'sys/devices/LNXSYSTM:00/LNXTHERM:01' } },
  { files: { 'sys/devices/LNXSYSTM:00/LNXTHERM:00/path': '\\_TZ_.TZ00\n' } },
  { files: { 'sys/devices/LNXSYSTM:00/LNXTHERM:01/path': '\\_TZ_.TZ01\n' } },
  hwmon('pci0000:00/0000:00:18.3/hwmon', 1, { name: 'k10temp', temp1_input: '40400', temp1_label: 'Tctl' }),
);

/** Labels, an average without an input, negative values. Sources: Documentation/hwmon/{pmbus,jc42}.rst, amdgpu_pm.c, sfp.c. */
export const labelled = machine(
  'Documentation/hwmon/pmbus.rst and jc42.rst, drivers/gpu/drm/amd/pm/amdgpu_pm.c, drivers/net/phy/sfp.c of Linux',
  hwmon('platform/soc/fe804000.i2c/i2c-1/1-0058/hwmon', 1, {
    name: 'pmbus',
    in1_input: '230500',
    in1_label: 'vin',
    curr1_input: '1250',
  }),
  hwmon('pci0000:00/0000:00:08.1/0000:05:00.0/hwmon', 3, {
    name: 'amdgpu',
    power1_average: '6000000',
    power1_label: 'slowPPT',
  }),
  hwmon('platform/sfp-eth2/hwmon', 2, { name: 'sfp_eth2', temp1_input: '-5375', temp1_fault: '0', power2_input: '2' }),
);

/** Several zones of the processor. Source: htop-dev/htop#1404. */
export const rk3588 = machine(
  'htop-dev/htop#1404',
  ...['soc', 'bigcore0', 'bigcore1', 'littlecore', 'center', 'gpu', 'npu'].map((name, number) =>
    zone(number, `${name}-thermal`, number === 2 ? '41600' : number === 5 ? '52000' : '36100'),
  ),
);

/** A converter without a scale: the driver shows counts. Source: ArduPilot/ardupilot#3627. */
export const beagleBone = machine(
  'ArduPilot/ardupilot#3627',
  iio('platform/ocp/44e0d000.tscadc/TI-am335x-adc', 0, {
    name: 'TI-am335x-adc',
    in_voltage0_raw: '1713',
    in_voltage1_raw: '4001',
  }),
);

/** Scale and offset of one channel, and of a type. Sources: libiio#846, linux-leica#35, raspberrypi/linux#1765. */
export const iioBoard = machine(
  'analogdevicesinc/libiio#846, hexagon-geo-surv/linux-leica#35, raspberrypi/linux#1765, edison-fw#108',
  iio('soc0/axi/f8007100.adc', 0, {
    name: 'xadc',
    in_temp0_raw: '2775',
    in_temp0_offset: '-2219',
    in_temp0_scale: '123.040771484',
    in_voltage4_vccpaux_raw: '2456',
    in_voltage4_vccpaux_scale: '0.732421875',
  }),
  iio('platform/30a30000.i2c/i2c-1/1-0048', 1, {
    name: 'ads1115',
    'in_voltage0-voltage1_raw': '8000',
    'in_voltage-voltage_scale': '0.1875',
    in_voltage0_raw: '4000',
    in_voltage_scale: '0.125',
  }),
  iio('platform/30a30000.i2c/i2c-1/1-0049', 2, { name: 'ads1115', in_voltage0_raw: '2000', in_voltage_scale: '0.125' }),
  iio('platform/30820000.spi/spi_master/spi0/spi0.0', 3, {
    name: 'scl3300',
    in_accel_z_raw: '16384',
    in_accel_scale: '0.000598',
    in_accel_x_peak_raw: '1000',
    in_accel_peak_scale: '0.001',
    in_incli_x_raw: '200',
    in_incli_scale: '0.005493164',
  }),
  iio('platform/30a30000.i2c/i2c-1/1-0040', 4, {
    name: 'si7020',
    in_temp_raw: '6724',
    in_temp_offset: '-4368',
    in_temp_scale: '10.725097656',
    in_humidityrelative_raw: '1800',
    in_humidityrelative_offset: '-786',
    in_humidityrelative_scale: '30.517578125',
  }),
  iio('platform/30a30000.i2c/i2c-1/1-0068', 5, {
    name: 'itg3200',
    in_anglvel_x_raw: '100',
    scale: '0.001',
    in_rot_quaternion_raw: '12 -3 40 1000',
    in_proximity_raw: '77',
    in_voltage0_mean_raw: '10',
    in_voltage0_scale: '2',
  }),
);

/**
 * Two adapters from USB to I2C, on which this boot gives the buses these `numbers`. Sources: drivers/hid/hid-cp2112.c and
 * i2c_add_adapter() in drivers/i2c/i2c-core-base.c of Linux: without an alias in the device tree, a bus gets the next number.
 */
export function twoAdapters(numbers: readonly [number, number]): Machine {
  const converter = (port: number, address: string, number: number, raw: string) => {
    const bus = numbers[port - 1];
    const usb = `pci0000:00/0000:00:14.0/usb1/1-1/1-1.${port}/1-1.${port}:1.0/0003:10C4:EA90.000${port}`;
    const attributes = { name: 'ads1115', in_voltage0_raw: raw, in_voltage0_scale: '1' };
    return iio(`${usb}/i2c-${bus}/${bus}-${address}`, number, attributes);
  };
  return machine(
    'drivers/hid/hid-cp2112.c of Linux',
    converter(1, '0048', 0, '1000'),
    converter(1, '0049', 1, '1500'),
    converter(2, '0048', 2, '2000'),
  );
}

/** One device at each of two USB controllers; this boot gives their buses these `numbers`. Source: usb_register_bus() of Linux. */
export function twoControllers(numbers: readonly [number, number]): Machine {
  const cooler = (controller: number, temp1_input: string) => {
    const bus = numbers[controller];
    const place = `pci0000:00/0000:00:1${controller + 4}.0/usb${bus}/${bus}-3/${bus}-3:1.0/0003:1E71:1714.0003/hwmon`;
    return hwmon(place, controller, { name: 'kraken', temp1_input });
  };
  return machine('drivers/usb/core/hcd.c of Linux', cooler(0, '21000'), cooler(1, '22000'));
}

/** A table of interfaces as proc_pid_net(5) describes /proc/net/dev: bytes received, then sent. */
function netDev(rows: Readonly<Record<string, readonly [number, number]>>): Pick<Machine, 'files'> {
  const lines = Object.entries(rows).map(
    ([name, [got, sent]]) => `${name.padStart(6)}: ${got} 1 0 0 0 0 0 0 ${sent} 1 0 0 0 0 0 0`,
  );
  return { files: { 'proc/net/dev': `Inter-|   Receive\n face |bytes\n${lines.join('\n')}\n` } };
}

const net = (place: string, name: string, attributes: Readonly<Record<string, string>>) =>
  device(`${place}/net/${name}`, `sys/class/net/${name}`, { type: '1', ...attributes });

/** A bridge, a VLAN, a container and a tunnel above hardware. Sources: netdata/netdata#18185, sys.ttar, moby/moby#28572. */
export const bridged = machine(
  'netdata/netdata#18185, prometheus/node_exporter sys.ttar, moby/moby#28572',
  netDev({
    lo: [9_000, 9_000],
    eth0: [200, 30],
    wlan0: [5_000, 600],
    ppp0: [10_000, 1_000],
    br0: [190, 29],
    'eth0.7': [50, 5],
    docker0: [70, 7],
    veth1: [70, 7],
    wg0: [80, 8],
    sit0: [0, 0],
  }),
  net('virtual', 'lo', { type: '772' }),
  net('pci0000:00/0000:00:03.0/0000:03:00.0', 'eth0', { 'device/uevent': 'PCI_SLOT_NAME=0000:03:00.0' }),
  net('platform/soc/fe300000.mmcnr/mmc_host/mmc1/mmc1:0001/mmc1:0001:1', 'wlan0', { 'device/uevent': '' }),
  net('virtual', 'ppp0', { type: '512' }),
  net('virtual', 'br0', { 'lower_eth0/uevent': '' }),
  net('virtual', 'eth0.7', { 'lower_eth0/uevent': '' }),
  net('virtual', 'docker0', { 'lower_veth1/uevent': '' }),
  net('virtual', 'veth1', {}),
  net('virtual', 'wg0', { type: '65534' }),
  net('virtual', 'sit0', { type: '776' }),
);

/** PPP over the Ethernet of a modem. Source: pppoe_seq_show() in drivers/net/ppp/pppoe.c of Linux. */
export const pppoe = machine(
  'drivers/net/ppp/pppoe.c of Linux',
  netDev({ lo: [9_000, 9_000], eth0: [200, 30], ppp0: [180, 20] }),
  { files: { 'proc/net/pppoe': 'Id       Address              Device\n00000012 52:54:00:12:34:56     eth0\n' } },
  net('virtual', 'lo', { type: '772' }),
  net('pci0000:00/0000:00:03.0/0000:03:00.0', 'eth0', { 'device/uevent': 'PCI_SLOT_NAME=0000:03:00.0' }),
  net('virtual', 'ppp0', { type: '512' }),
);

/** A container: no hardware, and a bridge of its own. Source: netns(7) with veth(4), as the kernel shows it. */
export const container = machine(
  'veth and bridge in a network namespace of Linux 6.12',
  netDev({ lo: [9_000, 9_000], host0: [200, 30], br0: [180, 20], tun0: [80, 8] }),
  net('virtual', 'lo', { type: '772' }),
  net('virtual', 'host0', {}),
  net('virtual', 'br0', { 'lower_host0/uevent': '' }),
  net('virtual', 'tun0', { type: '65534' }),
);

export const machines: Readonly<Record<string, Machine>> = {
  oneWire,
  twoNvme: twoNvme([0, 1]),
  twoAdapters: twoAdapters([3, 4]),
  twoSockets,
  twoDisks,
  faulty,
  laptop,
  miniPc,
  labelled,
  rk3588,
  beagleBone,
  iioBoard,
  bridged,
  pppoe,
  container,
};
