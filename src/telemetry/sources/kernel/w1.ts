import { join } from 'node:path';

import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { readKernelNumber } from './kernel-file.ts';

/** The values that a DS18B20 shows before its first conversion, and when its power fails during one. */
const notMeasured: ReadonlySet<number> = new Set([85_000, 127_937]);

/** A DS18B20 in °C, found by its number such as `28-0316a2795ee7` (kernel, Documentation/w1/slaves/w1_therm.rst). */
export function w1Source(device: string, root = '/'): PolledSource {
  const path = join(root, 'sys/bus/w1/devices', device, 'temperature');
  return {
    kind: 'polled',
    read: async (signal) => {
      const milli = await readKernelNumber(path, signal);
      if (notMeasured.has(milli) || milli >= 127_930) {
        throw sourceFailed(path, `${milli / 1_000} °C is what the sensor shows when it has not measured`);
      }
      if (milli < -55_000 || milli > 125_000) {
        throw sourceFailed(path, `${milli / 1_000} °C is outside its range, which is from -55 to 125 °C`);
      }
      return milli / 1_000;
    },
  };
}
