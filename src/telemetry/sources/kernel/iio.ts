import { join } from 'node:path';

import { requirePossible, unitOf } from '../../sensors/unit.ts';
import { sourceFailed } from '../source.ts';
import type { PolledSource } from '../source.ts';
import { findDevice } from './devices.ts';
import type { DeviceClass } from './devices.ts';
import { listDirectory, readKernelNumber } from './kernel-file.ts';

export function iioDevices(root: string): DeviceClass {
  return { base: join(root, 'sys/bus/iio/devices'), prefix: 'iio:device', file: 'name', title: 'device' };
}

/**
 * A channel such as `in_temp` (kernel, Documentation/ABI/testing/sysfs-bus-iio): `_input` as it is, else (`_raw` +
 * `_offset`) × `_scale`. `in_temp_raw` is the count of the converter, without a unit.
 */
export function iioSource(device: string, channel: string, root = '/'): PolledSource {
  return {
    kind: 'polled',
    read: async (signal) => {
      const directory = await findDevice(iioDevices(root), device, signal);
      const value = await readChannel(directory, channel, signal);
      return requirePossible(join(directory, channel), value, unitOf({ kind: 'iio', device, channel }));
    },
  };
}

async function readChannel(directory: string, channel: string, signal: AbortSignal): Promise<number> {
  const files = await listDirectory(directory);
  const read = async (file: string): Promise<number> => readKernelNumber(join(directory, file), signal);
  if (channel.endsWith(RAW)) return read(channel);
  if (files.includes(`${channel}_input`)) return read(`${channel}_input`);
  if (isCount(files, channel)) {
    const advice = `to send the count itself, name the channel ${channel}${RAW}`;
    throw sourceFailed(join(directory, channel), `it has no scale, so that it is a count without a unit; ${advice}`);
  }
  const raw = await read(channel + RAW);
  const [offset, scale] = [attributeOf(files, channel, 'offset'), attributeOf(files, channel, 'scale')];
  return (raw + (offset === undefined ? 0 : await read(offset))) * (scale === undefined ? 1 : await read(scale));
}

const RAW = '_raw';

/** The channels among the files of a device. A channel that is only a count is called `in_voltage0_raw`. */
export function channelsOf(files: readonly string[]): readonly string[] {
  const channels = new Set(files.flatMap((file) => /^(in_[\w-]{1,64})_(?:input|raw)$/.exec(file)?.[1] ?? []));
  return [...channels].map((channel) => (isCount(files, channel) ? channel + RAW : channel));
}

/** True if a channel that has a unit is shown as a count, without the scale that makes a measurement of it. */
function isCount(files: readonly string[], channel: string): boolean {
  const isScaled = files.includes(`${channel}_input`) || attributeOf(files, channel, 'scale') !== undefined;
  return !isScaled && files.includes(channel + RAW) && unitOf({ kind: 'iio', device: '', channel }) !== undefined;
}

/**
 * The file with the scale or the offset of a channel: its own, or shared by all channels of its type, by all inputs, or
 * by all channels (kernel, drivers/iio/industrialio-core.c, __iio_device_attr_init). Of `in_voltage0-voltage1` the
 * shared one is called `in_voltage-voltage_scale`, of `in_accel_x` `in_accel_scale`.
 */
function attributeOf(files: readonly string[], channel: string, what: 'scale' | 'offset'): string | undefined {
  const {
    type = '',
    second,
    rest = '',
  } = /^(?<type>in_[a-z]+)\d*(?<second>-[a-z]+)?\d*(?<rest>.*)$/.exec(channel)?.groups ?? {};
  const shared = `${type}${second ?? ''}`;
  const modifier = /_[^_]+$/.exec(rest)?.[0] ?? '';
  const plain = channel.replace(/_(?:mean|peak|trough)$/, '');
  const owners = [`${channel}_`, `${shared}${modifier}_`, `${plain}_`, `${shared}_`, 'in_', ''];
  return owners.map((owner) => owner + what).find((file) => files.includes(file));
}
