import { basename, join } from 'node:path';

import { sampleOf } from '../../reading-text.ts';
import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { listDirectory, readKernelFile, readKernelNumber } from './kernel-file.ts';

interface Family {
  /** The kernel's number divided by this is °C. */
  readonly perDegree: number;
  /** In °C. */
  readonly range: readonly [number, number];
  /**
   * The values in °C that a thermometer shows before its first conversion (85), and when its power fails during one.
   * To a thermocouple, 85 °C is a temperature like others.
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
  const directory = join(root, 'sys/bus/w1/devices', device);
  return {
    kind: 'polled',
    read: async (signal) => {
      const family = familyOf(device);
      if (family === undefined) {
        const known = [...families.keys()].join(', ');
        throw sourceFailed(
          directory,
          `“${device.slice(0, 2)}” is not the family of a known thermometer; known are ${known}`,
        );
      }
      const degrees = (await readTemperature(directory, signal)) / family.perDegree;
      await requireMeasured(directory, degrees, signal);
      const [min, max] = family.range;
      if (degrees < min || degrees > max) {
        throw sourceFailed(directory, `${degrees} °C is outside its range, which is from ${min} to ${max} °C`);
      }
      return degrees;
    },
  };
}

function familyOf(device: string): Family | undefined {
  return families.get(device.slice(0, 2).toLowerCase());
}

/**
 * Throws TelemetryError if the thermometer in this directory shows a temperature that it has not measured. Of a shorted
 * wire, Linux since 5.8 makes 0 °C (read_scratchpad() in drivers/w1/slaves/w1_therm.c): the bytes themselves show that.
 */
export async function requireMeasured(directory: string, degrees: number, signal: AbortSignal): Promise<void> {
  if (familyOf(basename(directory))?.notMeasured.includes(degrees) === true)
    throw sourceFailed(directory, `${degrees} °C is the value that the sensor shows when it has not measured`);
  if (degrees === 0 && (await listDirectory(directory)).includes('w1_slave')) await readBytes(directory, signal);
}

async function readTemperature(directory: string, signal: AbortSignal): Promise<number> {
  const files = await listDirectory(directory);
  const isOlder = files.includes('w1_slave') && !files.includes('temperature'); // Linux before 5.8
  return isOlder ? readBytes(directory, signal) : readKernelNumber(join(directory, 'temperature'), signal);
}

/** Reads a temperature with the bytes that the thermometer sent. */
async function readBytes(directory: string, signal: AbortSignal): Promise<number> {
  const text = (await readKernelFile(join(directory, 'w1_slave'), signal)).trim();
  const [, milli] = measured.exec(text) ?? [];
  if (milli === undefined) throw sourceFailed(directory, `no measurement with a valid checksum: ${sampleOf(text)}`);
  return Number(milli);
}

/** Nine bytes that the thermometer sent, twice. Nine zeros, as from a shorted wire, have a valid checksum, too. */
const measured = /^(?!(?:00 ){9})(?:[\da-f]{2} ){9}: crc=[\da-f]{2} YES\n(?:[\da-f]{2} ){9}t=(-?\d+)$/;
