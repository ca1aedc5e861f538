import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { defaultInterfaces, findMeteredLink } from '../../../../src/system/device/default-route.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const HEAD = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n';
const zero = '0'.repeat(32);

let folder: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
});

function v4(
  name: string,
  metric: number,
  { flags = '0003', destination = '00000000', mask = '00000000' } = {},
): string {
  return `${name}\t${destination}\t010200C0\t${flags}\t0\t0\t${metric}\t${mask}\t0\t0\t0\n`;
}

function v6(name: string, metric: string, { flags = '00000003', length = '00' } = {}): string {
  return `${zero} ${length} ${zero} 00 ${zero} ${metric} 00000002 00000000 ${flags}     ${name}\n`;
}

async function interfaces(route: string, route6?: string): Promise<readonly string[]> {
  await writeFile(join(folder, 'route'), HEAD + route);
  if (route6 !== undefined) await writeFile(join(folder, 'ipv6_route'), route6);
  return [...(await defaultInterfaces(folder))];
}

test('the way out is the default route with the lowest metric, of each family', async () => {
  expect(await interfaces(v4('wwan0', 700) + v4('eth0', 100))).toEqual(['eth0']);
  expect(await interfaces(v4('eth0', 100), v6('wwan0', '000003ff') + v6('eth0', '00000400'))).toEqual([
    'eth0',
    'wwan0',
  ]);
});

test('routes to one network, that are down, or that refuse are no way out', async () => {
  const lan = v4('eth1', 0, { destination: '000200C0', mask: '00FFFFFF' });
  const half = v4('tun0', 0, { mask: '00000080' });
  expect(await interfaces(lan + half + v4('eth0', 0, { flags: '0002' }))).toEqual([]);
  const refusing = v6('lo', '00000001', { flags: '00200200' }) + v6('lo', '00000001', { flags: '00000201' });
  expect(await interfaces('', refusing + v6('eth0', '00000001', { length: '40' }))).toEqual([]);
});

test('a gateway without routes, or without a family, is connected to nothing that costs', async () => {
  expect(await interfaces('')).toEqual([]);
  await mkdir(join(folder, 'empty'));
  expect(await findMeteredLink(['*'], join(folder, 'empty'))).toBeUndefined();
});

test('an interface is metered by its name, or the beginning of it', async () => {
  await interfaces(v4('wwan0', 0));
  expect(await findMeteredLink(['ppp0', 'wwan*'], folder)).toBe('wwan0');
  expect(await findMeteredLink(['wwan0'], folder)).toBe('wwan0');
  expect(await findMeteredLink(['wwan', 'wan0', 'wwan00'], folder)).toBeUndefined();
  expect(await findMeteredLink([], folder)).toBeUndefined();
  await interfaces(v4('ü1', 0), v6('ü2', '00000001'));
  expect(await findMeteredLink(['ü1'], folder)).toBe('ü1');
  expect(await findMeteredLink(['ü2'], folder)).toBe('ü2');
});

test('the tables of a real kernel are read as ip(8) shows them', async () => {
  const setUp =
    'ip link add eth7 type veth peer name p1; ip link add wwan7 type veth peer name p2; ip link set p1 up; ip link set p2 up; ip addr add 192.0.2.1/24 dev eth7; ip addr add 198.51.100.1/24 dev wwan7; ' +
    'ip link set eth7 up; ip link set wwan7 up; ip route add default via 192.0.2.2 metric 100; ip route add default via 198.51.100.2 metric 700';
  const look = `node --input-type=module -e "
    const { defaultInterfaces } = await import('${join(import.meta.dirname, '../../../../src/system/device/default-route.ts')}');
    console.log([...await defaultInterfaces()].join());"`;
  const script = `${setUp}; ${look}; ip link set eth7 down; ${look}`;
  const { stdout } = await promisify(execFile)('unshare', ['--net', 'sh', '-c', script]);
  expect(stdout.trim().split('\n')).toEqual(['eth7', 'wwan7']);
});
