import { join } from 'node:path';

import { listDirectory, readKernelFile, readKernelNumber } from './kernel-file.ts';
import { sourceFailed } from './source.ts';
import type { PolledSource } from './source.ts';

/**
 * A channel like `in_temp`, of a device by its name (kernel, Documentation/ABI/testing/sysfs-bus-iio): `_input` as it is, else
 * (`_raw` + `_offset`) × `_scale`; scale and offset may belong to the channel, or to all of its kind.
 */
export function iioSource(device: string, channel: string, root = '/'): PolledSource {
  const base = join(root, 'sys/bus/iio/devices');
  return {
    kind: 'polled',
    read: async (signal) => {
      for (const name of await listDirectory(base)) {
        const directory = join(base, name);
        const files = new Set(await listDirectory(directory));
        if (!files.has('name') || (await readKernelFile(join(directory, 'name'), signal)).trim() !== device) continue;
        return readChannel(directory, files, channel, signal);
      }
      throw sourceFailed(base, `there is no device ${device}`);
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
