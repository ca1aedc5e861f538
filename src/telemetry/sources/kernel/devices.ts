import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { AgentError, valueOrUndefined } from '../../../system/errors.ts';
import { sourceFailed } from '../source.ts';
import { listDirectory, readKernelFile, readKernelText } from './kernel-file.ts';

/** The directories in which the kernel shows the devices of one kind. */
export interface DeviceClass {
  /** The directory with the directories of all devices. */
  readonly base: string;
  /** The names of these directories begin with it; the number that follows changes from boot to boot. */
  readonly prefix: string;
  /** The file with the name of the device. */
  readonly file: string;
  /** The word for a device in messages. */
  readonly title: string;
}

export interface KernelDevice {
  readonly directory: string;
  readonly name: string;
}

const MAX_SHOWN = 8;
const MAX_NAME_LENGTH = 64;

/** Returns the devices of a class. Adds to `unread` why the name of a device cannot be read. */
export async function listDevices(
  { base, prefix, file }: DeviceClass,
  signal: AbortSignal,
  unread: string[] = [],
): Promise<readonly KernelDevice[]> {
  const found: KernelDevice[] = [];
  for (const folder of await listDirectory(base)) {
    const directory = join(base, folder);
    if (!folder.startsWith(prefix) || !(await listDirectory(directory)).includes(file)) continue;
    try {
      found.push({ directory, name: (await readKernelFile(join(directory, file), signal)).trim() });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AgentError)) throw error;
      unread.push(error.message);
    }
  }
  return found;
}

/**
 * Returns the directory of the device that is called `wanted`: `nvme`, or `nvme@0000:02:00.0` where several devices have
 * this name. Throws TelemetryError if there is no such device, or more than one.
 */
export async function findDevice(kind: DeviceClass, wanted: string, signal: AbortSignal): Promise<string> {
  const { base, title } = kind;
  const unread: string[] = [];
  const devices = await listDevices(kind, signal, unread);
  const found: KernelDevice[] = devices.filter(({ name }) => name === wanted);
  for (const device of found.length > 0 ? [] : devices) {
    const place = wanted.startsWith(`${device.name}@`) ? wanted.slice(device.name.length + 1) : undefined;
    if (place !== undefined && (await placesOf(device, signal)).includes(place)) found.push(device);
  }
  const [first, second] = found;
  if (first === undefined) {
    const there = devices.length === 0 ? '' : `; there is ${shown(devices.map(({ name }) => name))}`;
    const missed = unread.length === 0 ? '' : `; not readable: ${shown(unread)}`;
    throw sourceFailed(base, `no ${title} ${wanted}${there}${missed}`);
  }
  if (second === undefined) return first.directory;
  const names = await distinctNames(found, signal);
  const telling = names.map((name, index) => name ?? `${basename(found[index]?.directory ?? '')} (has no address)`);
  throw sourceFailed(base, `${found.length} devices are called ${wanted}: ${shown(telling)}`);
}

/** Returns a name for each device that only this device has, or undefined if nothing lasting tells it apart. */
export async function distinctNames(
  devices: readonly KernelDevice[],
  signal: AbortSignal,
): Promise<readonly (string | undefined)[]> {
  const named = Map.groupBy(devices, ({ name }) => name);
  const places = new Map<KernelDevice, readonly string[]>();
  for (const device of devices) places.set(device, await placesOf(device, signal));
  return devices.map((device) => {
    const { name } = device;
    const others = (named.get(name) ?? []).filter((other) => other !== device).map((other) => places.get(other) ?? []);
    if (others.length === 0) return name;
    const own = (places.get(device) ?? []).filter((place) => others.every((other) => !other.includes(place)));
    return own.map((place) => `${name}@${place}`).find((distinct) => !named.has(distinct));
  });
}

/**
 * Returns what stays with a device from boot to boot, the most telling first: its label, the addresses on its path (PCI,
 * platform), the identifier of a drive, and its address on a bus (I2C, USB): alone, below another address, and with the
 * number of the bus, which lasts only if the device tree gives it.
 */
async function placesOf({ directory }: KernelDevice, signal: AbortSignal): Promise<readonly string[]> {
  const label = await readKernelText(join(directory, 'label'), signal);
  const drive = await readKernelText(join(directory, 'device/wwid'), signal);
  const paths: string[] = [];
  for (const link of [directory, join(directory, 'device')]) {
    const path = await valueOrUndefined(realpath(link));
    paths.push(...(path?.split('/sys/devices/')[1] ?? '').split('/').toReversed());
  }
  const addresses = paths.filter((part) => address.test(part) && !counted.test(part));
  const onBuses = addresses.filter((part) => onBus.test(part));
  const lasting = addresses.map((part) => part.replace(onBus, ''));
  const combined = lasting.flatMap((part, index) => lasting.slice(index + 1).map((above) => `${above}/${part}`));
  const all = [label, ...addresses.filter((part) => !onBus.test(part)), drive, ...lasting, ...combined, ...onBuses];
  return all.flatMap((place) => (place === undefined || place === '' ? [] : [place]));
}

/** `0000:02:00.0`, `1-0048`, `1-1.2:1.0`, `fe804000.i2c`, `coretemp.0`, `LNXTHERM:00`: with digits, and with signs. */
const address = /^(?=.*\d)(?=.*[.:-])/;
/** The number of an I2C or USB bus, before the address of a device on it: `1-0048`, `1-1.2:1.0`. */
const onBus = /^\d+-(?=[\da-f]{4}$|\d{1,3}(?:\.\d{1,3})*(?::[\d.]+)?$)/;
/** Numbers in the order of detection: IIO devices, I2C buses, SCSI targets, HID devices, and `.auto` of the kernel. */
const counted = /^iio:device|^i2c-\d|^target\d|^\d+:\d+:\d+:\d+$|^(?:[\dA-F]{4}:){2}[\dA-F]{4}\.[\dA-F]{4}$|\.auto$/;

function shown(all: readonly string[]): string {
  const more = all.length > MAX_SHOWN ? `, and ${all.length - MAX_SHOWN} more` : '';
  const texts = all.slice(0, MAX_SHOWN).map((text) => text.slice(0, MAX_NAME_LENGTH));
  return `${texts.join(', ')}${more}`;
}
