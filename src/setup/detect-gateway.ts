import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { findImageVersion, OS_RELEASE } from '../system/device/image-version.ts';
import { findSerialNumber } from '../system/device/serial-number.ts';
import { AgentError, systemErrorCode, undefinedIf, valueOrUndefined } from '../system/errors.ts';
import { readUntrustedFile } from '../system/files/untrusted-file.ts';
import { silentLog } from '../system/log/log.ts';
import { scanSerial } from '../telemetry/scan/scan-serial.ts';
import { PARTITION_NAMES } from './slot-pairs.ts';

/** The value of `[targets.NAME] bootloader` for a bootloader whose files were found. */
export type FoundBootloader =
  | { readonly kind: 'uboot' }
  | { readonly kind: 'grub'; readonly environment: string }
  | { readonly kind: 'tryboot'; readonly autoboot: string };

/** The values that setup can detect before a gateway is configured. */
export interface DetectedGateway {
  /** Names of partitions, as in `/dev/disk/by-partlabel`. */
  readonly partitions: readonly string[];
  readonly bootloaders: readonly FoundBootloader[];
  /** Paths of ports, as `agent sensors scan serial` finds them. */
  readonly serialPorts: readonly string[];
  /** The device type that the image states, or undefined. */
  readonly deviceType: string | undefined;
  /** Files of public keys in `/etc/thing-agent/trust`. */
  readonly releaseKeys: readonly string[];
  /** The serial number of the hardware, or undefined if there is no usable one. */
  readonly serialNumber: string | undefined;
  /** The version that the image states, which needs no setting, or undefined. */
  readonly imageVersion: string | undefined;
  /** The packages that dpkg has installed, or undefined without dpkg. */
  readonly packages: ReadonlySet<string> | undefined;
}

const RELEASE_KEYS = '/etc/thing-agent/trust';
/** Source: dpkg-query(1), --listfiles: `NAME.list`, or `NAME:ARCHITECTURE.list`. */
const PACKAGES = '/var/lib/dpkg/info';
const MAX_NAMES = 100;
const MAX_PACKAGE_FILES = 200_000;
const MAX_DEVICE_TYPE_BYTES = 4096;

/** Files in which Mender's clients and images state the type: `device_type=raspberrypi4-64`. */
const DEVICE_TYPE_FILES = ['/etc/thing-agent/device_type', '/var/lib/mender/device_type', '/etc/mender/device_type'];

const bootFiles: readonly { readonly file: string; readonly found: FoundBootloader }[] = [
  { file: '/etc/fw_env.config', found: { kind: 'uboot' } },
  ...['/boot/grub/grubenv', '/boot/grub2/grubenv', '/boot/efi/EFI/BOOT/grubenv'].map((file) => ({
    file,
    found: { kind: 'grub', environment: file } as const,
  })),
  ...['/boot/firmware/autoboot.txt', '/boot/autoboot.txt'].map((file) => ({
    file,
    found: { kind: 'tryboot', autoboot: file } as const,
  })),
];

/** Looks around without changing anything, below `root`. */
export async function detectGateway(signal: AbortSignal, root = '/'): Promise<DetectedGateway> {
  const bootloaders: FoundBootloader[] = [];
  for (const { file, found } of bootFiles) if (await isFile(join(root, file))) bootloaders.push(found);
  const keys = await namesIn(join(root, RELEASE_KEYS));
  return {
    partitions: await namesIn(join(root, PARTITION_NAMES)),
    bootloaders,
    serialPorts: (await scanSerial(signal, root)).found.flatMap(({ title, problem }) => (problem ? [] : [title])),
    deviceType: await deviceType(root),
    releaseKeys: keys.filter((name) => name.endsWith('.pem')).map((name) => join(RELEASE_KEYS, name)),
    serialNumber: await serialNumber(signal),
    imageVersion: await findImageVersion(
      { factoryVersion: undefined, factoryVersionFile: undefined },
      silentLog,
      OS_RELEASE.map((file) => join(root, file)),
    ),
    packages: await packagesIn(join(root, PACKAGES)),
  };
}

async function deviceType(root: string): Promise<string | undefined> {
  for (const file of DEVICE_TYPE_FILES) {
    try {
      const text = (await readUntrustedFile(join(root, file), { maxBytes: MAX_DEVICE_TYPE_BYTES })).toString('utf8');
      const found = /^(?:device_type=)?([\x21-\x7e]{1,128})\s*$/m.exec(text)?.[1];
      if (found !== undefined) return found;
    } catch (error) {
      if (systemErrorCode(error) === undefined && !(error instanceof AgentError)) throw error;
    }
  }
  return undefined;
}

async function serialNumber(signal: AbortSignal): Promise<string | undefined> {
  const finding = findSerialNumber({ serialNumber: undefined, serialNumberFile: undefined }, signal);
  return undefinedIf((error) => error instanceof AgentError, finding);
}

async function packagesIn(folder: string): Promise<ReadonlySet<string> | undefined> {
  const names = await namesIn(folder, MAX_PACKAGE_FILES);
  const packages = names.flatMap((name) => /^([^:]+?)(?::[^:]+)?\.list$/.exec(name)?.[1] ?? []);
  return packages.length === 0 ? undefined : new Set(packages);
}

async function namesIn(folder: string, most = MAX_NAMES): Promise<readonly string[]> {
  return ((await valueOrUndefined(readdir(folder))) ?? []).sort().slice(0, most);
}

async function isFile(path: string): Promise<boolean> {
  return (await valueOrUndefined(stat(path)))?.isFile() ?? false;
}
