import { join } from 'node:path';

import type { PolledSource } from '../source.ts';
import { findDevice, readKernelNumber } from './kernel-file.ts';

/**
 * A sensor chip, found by its name, since numbers change from boot to boot (kernel,
 * Documentation/hwmon/sysfs-interface.rst). `input` is `temp1`, `in0`, `curr1`, `power1`, `fan1` or `humidity1`. Units:
 * °C, V, A, W, rpm, %.
 */
export function hwmonSource(chip: string, input: string, root = '/'): PolledSource {
  const base = join(root, 'sys/class/hwmon');
  return {
    kind: 'polled',
    read: async (signal) => {
      const isIt = (says: string | undefined): boolean => says === chip;
      const directory = await findDevice({ base, file: 'name', title: `chip ${chip}`, isIt }, signal);
      return (await readKernelNumber(join(directory, `${input}_input`), signal)) / divisorOf(input);
    },
  };
}

/**
 * A thermal zone in °C, found by its type such as `cpu-thermal`, or by its number
 * (Documentation/driver-api/thermal/sysfs-api.rst).
 */
export function thermalSource(zone: string, root = '/'): PolledSource {
  const base = join(root, 'sys/class/thermal');
  return {
    kind: 'polled',
    read: async (signal) => {
      const isIt = (says: string | undefined, folder: string): boolean =>
        folder === `thermal_zone${zone}` || (folder.startsWith('thermal_zone') && says === zone);
      const directory = await findDevice({ base, file: 'type', title: `zone ${zone}`, isIt }, signal);
      return (await readKernelNumber(join(directory, 'temp'), signal)) / 1_000;
    },
  };
}

function divisorOf(input: string): number {
  if (/^(temp|in|curr|humidity)\d/.test(input)) return 1_000;
  return /^(power|energy)\d/.test(input) ? 1_000_000 : 1;
}
