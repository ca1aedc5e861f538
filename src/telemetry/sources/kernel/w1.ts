import { join } from 'node:path';

import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { readKernelNumber } from './kernel-file.ts';

interface Family {
  /** The kernel's number divided by this is °C. */
  readonly perDegree: number;
  /** In °C. */
  readonly range: readonly [number, number];
  /**
   * What a thermometer shows in °C before its first conversion (85), and when its power fails during one. To a
   * thermocouple, 85 °C is a temperature like others.
   */
  readonly notMeasured: readonly number[];
}

const usual: Family = { perDegree: 1_000, range: [-55, 125], notMeasured: [85, 127.937] };

/** By the family code in a device's number (Linux, Documentation/w1/slaves/w1_therm.rst and w1_ds2438.rst). */
const families: ReadonlyMap<string, Family> = new Map([
  ['10', usual], // DS18S20
  ['22', usual], // DS1822
  ['26', { ...usual, perDegree: 256, notMeasured: [] }], // DS2438
  ['28', usual], // DS18B20
  // DS1825, and MAX31850 and MAX31851 for thermocouples (data sheet 19-6725)
  ['3b', { perDegree: 1_000, range: [-270, 1_768], notMeasured: [127.937] }],
  ['42', usual], // DS28EA00
]);

/** A thermometer in °C, found by its number such as `28-0316a2795ee7`. */
export function w1Source(device: string, root = '/'): PolledSource {
  const path = join(root, 'sys/bus/w1/devices', device, 'temperature');
  const code = device.slice(0, 2).toLowerCase();
  return {
    kind: 'polled',
    read: async (signal) => {
      const family = families.get(code);
      if (family === undefined) {
        const known = [...families.keys()].join(', ');
        throw sourceFailed(path, `“${code}” is not the family of a known thermometer; known are ${known}`);
      }
      const { perDegree, range, notMeasured } = family;
      const degrees = (await readKernelNumber(path, signal)) / perDegree;
      if (notMeasured.includes(degrees)) {
        throw sourceFailed(path, `${degrees} °C is what the sensor shows when it has not measured`);
      }
      const [min, max] = range;
      if (degrees < min || degrees > max) {
        throw sourceFailed(path, `${degrees} °C is outside its range, which is from ${min} to ${max} °C`);
      }
      return degrees;
    },
  };
}
