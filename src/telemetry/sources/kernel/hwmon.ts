import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { valueOrUndefined } from '../../../system/errors.ts';
import { requirePossible, unitOf } from '../../sensors/unit.ts';
import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { findDevice } from './devices.ts';
import type { DeviceClass } from './devices.ts';
import { listDirectory, readKernelNumber, readKernelText } from './kernel-file.ts';
import { requireMeasured } from './w1.ts';

export function hwmonChips(root: string): DeviceClass {
  return { base: join(root, 'sys/class/hwmon'), prefix: 'hwmon', file: 'name', title: 'chip' };
}

export function thermalZones(root: string): DeviceClass {
  return { base: join(root, 'sys/class/thermal'), prefix: 'thermal_zone', file: 'type', title: 'zone' };
}

/**
 * A sensor chip (kernel, Documentation/hwmon/sysfs-interface.rst). `input` is `temp1`, `in0`, `curr1`, `power1`, `fan1`
 * or `humidity1`. Units: °C, V, A, W, rpm, %.
 */
export function hwmonSource(chip: string, input: string, root = '/'): PolledSource {
  const read = async (signal: AbortSignal): Promise<number> =>
    readInput(await findDevice(hwmonChips(root), chip, signal), input, signal);
  return { kind: 'polled', read };
}

/** Returns the value of an input of the chip in this directory. Throws TelemetryError. */
export async function readInput(directory: string, input: string, signal: AbortSignal): Promise<number> {
  const files = await listDirectory(directory);
  for (const { file, is, why } of invalid) {
    const name = `${input}_${file}`;
    const path = join(directory, name);
    if (files.includes(name) && (await readKernelText(path, signal)) === is) throw sourceFailed(path, why);
  }
  const average = `${input}_average`;
  const isAverage = files.includes(average) && !files.includes(`${input}_input`);
  const path = join(directory, isAverage ? average : `${input}_input`);
  const value = (await readKernelNumber(path, signal)) / divisorOf(input);
  // the device of a chip `w1_slave_temp` is a thermometer on the 1-Wire bus (drivers/w1/w1.c of Linux)
  const device = (await valueOrUndefined(realpath(join(directory, 'device')))) ?? '';
  if (/^[\da-f]{2}-[\da-f]{12}$/.test(basename(device))) await requireMeasured(device, value, signal);
  return requirePossible(path, value, unitOf({ kind: 'hwmon', chip: '', input }));
}

/** The inputs among the files of a chip. Some meters of power show only the average. */
export function inputsOf(files: readonly string[]): readonly string[] {
  const input = /^((?:temp|in|curr|power|energy|fan|humidity)\d{1,4})_(?:input|average)$/;
  return [...new Set(files.flatMap((file) => input.exec(file)?.[1] ?? []))];
}

/** Files that say whether an input measures; some drivers show the last or any value otherwise. */
const invalid = [
  { file: 'fault', is: '1', why: 'the chip reports a fault of this input' },
  { file: 'enable', is: '0', why: 'this input is switched off' },
];

/**
 * A thermal zone in °C, found by its type such as `cpu-thermal`, or by its number
 * (Documentation/driver-api/thermal/sysfs-api.rst).
 */
export function thermalSource(zone: string, root = '/'): PolledSource {
  const kind = thermalZones(root);
  return {
    kind: 'polled',
    read: async (signal) =>
      readZone(/^\d+$/.test(zone) ? join(kind.base, kind.prefix + zone) : await findDevice(kind, zone, signal), signal),
  };
}

/** Returns the temperature of a zone. Throws TelemetryError. */
export async function readZone(directory: string, signal: AbortSignal): Promise<number> {
  const path = join(directory, 'temp');
  return requirePossible(path, (await readKernelNumber(path, signal)) / 1_000, '°C');
}

function divisorOf(input: string): number {
  if (/^(temp|in|curr|humidity)\d/.test(input)) return 1_000;
  return /^(power|energy)\d/.test(input) ? 1_000_000 : 1;
}
