import { join } from 'node:path';

import type { PolledSource } from '../source.ts';
import { findDevice, listDirectory, readKernelNumber } from './kernel-file.ts';

/**
 * A channel such as `in_temp` of a device with this name (kernel, Documentation/ABI/testing/sysfs-bus-iio): `_input` as
 * it is, else (`_raw` + `_offset`) × `_scale`. Scale and offset may belong to the channel, or to all channels of its
 * kind.
 */
export function iioSource(device: string, channel: string, root = '/'): PolledSource {
  const base = join(root, 'sys/bus/iio/devices');
  return {
    kind: 'polled',
    read: async (signal) => {
      const isIt = (says: string | undefined): boolean => says === device;
      const directory = await findDevice({ base, file: 'name', title: `device ${device}`, isIt }, signal);
      return readChannel(directory, new Set(await listDirectory(directory)), channel, signal);
    },
  };
}

async function readChannel(
  directory: string,
  files: ReadonlySet<string>,
  channel: string,
  signal: AbortSignal,
): Promise<number> {
  if (files.has(`${channel}_input`)) return readKernelNumber(join(directory, `${channel}_input`), signal);
  const shared = channel.replace(/(?<!\d)\d+$/, '');
  const factor = async (what: 'scale' | 'offset', otherwise: number): Promise<number> => {
    const file = [`${channel}_${what}`, `${shared}_${what}`].find((name) => files.has(name));
    return file === undefined ? otherwise : readKernelNumber(join(directory, file), signal);
  };
  const raw = await readKernelNumber(join(directory, `${channel}_raw`), signal);
  return (raw + (await factor('offset', 0))) * (await factor('scale', 1));
}
