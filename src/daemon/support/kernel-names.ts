import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { valueOrUndefined } from '../../system/errors.ts';

/** The names that the kernel's messages use for the configured devices: `mmcblk0`, `ttyUSB0`, `usb 1-1.2`. */
export async function kernelNamesOf({ targets, measurements }: Config): Promise<readonly string[]> {
  const paths = [
    ...targets.flatMap(devicesOf),
    ...measurements.flatMap(({ source }) => ('port' in source && typeof source.port === 'string' ? [source.port] : [])),
  ];
  const names: string[] = [];
  for (const path of paths) {
    const device = await valueOrUndefined(realpath(path));
    if (device?.startsWith('/dev/') === true)
      names.push(diskOf(basename(device)), ...(await usbNames(basename(device))));
  }
  const buses = measurements.flatMap(({ source }) => (busWords.has(source.kind) ? [source.kind] : []));
  return [...new Set([...names, ...buses])];
}

function devicesOf(target: Config['targets'][number]): readonly string[] {
  if (target.kind === 'slots') return [target.slots.A, target.slots.B];
  return target.kind === 'mcu' ? [target.port] : [];
}

const busWords: ReadonlySet<string> = new Set(['iio', 'w1', 'hwmon']);

/** The disk of a partition, since the kernel's messages name the disk. */
function diskOf(name: string): string {
  const [, numbered] = /^((?:mmcblk|nvme\d{1,4}n|loop|nbd)\d{1,4})p\d{1,4}$/.exec(name) ?? [];
  const [, lettered] = /^((?:sd|vd|hd|xvd)[a-z]{1,3})\d{1,4}$/.exec(name) ?? [];
  return numbered ?? lettered ?? name;
}

/** The USB port on which a serial port hangs: `…/usb1/1-1/1-1.2/1-1.2:1.0/ttyUSB0`. */
async function usbNames(tty: string): Promise<readonly string[]> {
  const device = await valueOrUndefined(realpath(join('/sys/class/tty', tty, 'device')));
  const plug = device?.split('/').findLast((part) => /^\d{1,3}-[\d.]{1,32}$/.test(part));
  return plug === undefined ? [] : [`usb ${plug}`];
}
