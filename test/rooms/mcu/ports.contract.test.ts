import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { holdersOf, listPorts } from '../../../src/mcu/ports.ts';

let root = '';

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'ports-'));
});

afterEach(async () => rm(root, { recursive: true }));

/** A tty as the kernel shows it in sysfs. */
async function tty(name: string, device: string | undefined, type = '1'): Promise<void> {
  const folder = join(root, 'sys/class/tty', name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'type'), `${type}\n`);
  if (device !== undefined) {
    await mkdir(join(root, 'sys/devices', device), { recursive: true });
    await symlink(join(root, 'sys/devices', device), join(folder, 'device'));
  }
}

test('ports are named by what is plugged in, with what it says of itself, and without udevadm', async () => {
  await tty('ttyUSB0', 'usb1/1-1/1-1:1.0/ttyUSB0');
  await writeFile(join(root, 'sys/devices/usb1/1-1/product'), 'FT232R USB UART\n');
  await writeFile(join(root, 'sys/devices/usb1/1-1/manufacturer'), 'FTDI\n');
  await tty('ttyAMA0', 'soc/uart0');
  await tty('ttyS0', 'platform/serial8250', '0');
  await tty('tty1', undefined);
  await mkdir(join(root, 'dev/serial/by-id'), { recursive: true });
  await symlink('../../ttyUSB0', join(root, 'dev/serial/by-id/usb-FTDI_FT232R-if00-port0'));

  expect(await listPorts({ dev: join(root, 'dev'), sys: join(root, 'sys') })).toEqual([
    {
      path: join(root, 'dev/serial/by-id/usb-FTDI_FT232R-if00-port0'),
      device: join(root, 'dev/ttyUSB0'),
      description: 'FTDI FT232R USB UART',
    },
    { path: join(root, 'dev/ttyAMA0'), device: join(root, 'dev/ttyAMA0'), description: undefined },
  ]);
});

test('a gateway without any port has an empty list', async () => {
  expect(await listPorts({ dev: join(root, 'dev'), sys: join(root, 'sys') })).toEqual([]);
});

test('the program that holds a port is named', async () => {
  const path = join(root, 'port');
  await writeFile(path, '');
  const holder = spawn('sh', ['-c', 'exec 3<"$0"; echo ready; read -r _', path], { stdio: ['pipe', 'pipe', 'ignore'] });
  await once(holder.stdout, 'data');
  try {
    expect(await holdersOf(path)).toEqual([`sh (${holder.pid})`]);
  } finally {
    const ended = once(holder, 'close');
    holder.kill();
    await ended;
  }
});
