import { join } from 'node:path';

import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { readKernelNumber } from './kernel-file.ts';

/** The ranges of thermometers in °C, by the family code in their number (Linux, drivers/w1/slaves/w1_therm.c). */
const ranges: Readonly<Record<string, readonly [number, number]>> = {
  // DS1825, and MAX31850 and MAX31851 for thermocouples (data sheet 19-6725)
  '3b': [-270, 1_768],
};
/** DS18S20, DS1822, DS18B20 and DS28EA00. */
const usualRange = [-55, 125] as const;

/**
 * The values that a thermometer shows before its first conversion, and when its power fails during one. To a
 * thermocouple, 85 °C is a temperature like others.
 */
const notMeasured = { started: 85_000, unpowered: 127_937 };

/** A thermometer in °C, found by its number such as `28-0316a2795ee7` (kernel, Documentation/w1/slaves/w1_therm.rst). */
export function w1Source(device: string, root = '/'): PolledSource {
  const path = join(root, 'sys/bus/w1/devices', device, 'temperature');
  const range = ranges[device.slice(0, 2).toLowerCase()];
  const [min, max] = range ?? usualRange;
  return {
    kind: 'polled',
    read: async (signal) => {
      const milli = await readKernelNumber(path, signal);
      if (milli === notMeasured.unpowered || (milli === notMeasured.started && range === undefined)) {
        throw sourceFailed(path, `${milli / 1_000} °C is what the sensor shows when it has not measured`);
      }
      if (milli < min * 1_000 || milli > max * 1_000) {
        throw sourceFailed(path, `${milli / 1_000} °C is outside its range, which is from ${min} to ${max} °C`);
      }
      return milli / 1_000;
    },
  };
}
