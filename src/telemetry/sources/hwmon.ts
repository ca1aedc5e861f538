import { join } from 'node:path';

import { listDirectory, readKernelFile, readKernelNumber } from './kernel-file.ts';
import { sourceFailed } from './source.ts';
import type { PolledSource } from './source.ts';

/**
 * A sensor chip by its name, because numbers change from boot to boot (kernel, Documentation/hwmon/sysfs-interface.rst).
 * `input`: `temp1`, `in0`, `curr1`, `power1`, `fan1`, `humidity1`. In °C, V, A, W, rpm, %.
 */
export function hwmonSource(chip: string, input: string, root = '/'): PolledSource {
  const base = join(root, 'sys/class/hwmon');
  return {
    kind: 'polled',
    read: async (signal) => {
      for (const name of await listDirectory(base)) {
        const directory = join(base, name);
        if ((await nameOf(directory, signal)) !== chip) continue;
        return (await readKernelNumber(join(directory, `${input}_input`), signal)) / divisorOf(input);
      }
      throw sourceFailed(base, `there is no chip ${chip}`);
    },
  };
}

/** A zone by its type, like `cpu-thermal`, or by its number (Documentation/driver-api/thermal/sysfs-api.rst). In °C. */
export function thermalSource(zone: string, root = '/'): PolledSource {
  const base = join(root, 'sys/class/thermal');
  return {
    kind: 'polled',
    read: async (signal) => {
      for (const name of await listDirectory(base)) {
        if (!name.startsWith('thermal_zone')) continue;
        const type = (await readKernelFile(join(base, name, 'type'), signal)).trim();
        if (type !== zone && name !== `thermal_zone${zone}`) continue;
        return (await readKernelNumber(join(base, name, 'temp'), signal)) / 1_000;
      }
      throw sourceFailed(base, `there is no zone ${zone}`);
    },
  };
}

async function nameOf(directory: string, signal: AbortSignal): Promise<string | undefined> {
  const names = await listDirectory(directory);
  return names.includes('name') ? (await readKernelFile(join(directory, 'name'), signal)).trim() : undefined;
}

function divisorOf(input: string): number {
  if (/^(temp|in|curr|humidity)\d/.test(input)) return 1_000;
  return /^(power|energy)\d/.test(input) ? 1_000_000 : 1;
}
