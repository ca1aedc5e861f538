import { abortable } from '../abortable.ts';
import type { AgentError } from '../errors.ts';
import { mapError, undefinedIfMissing } from '../errors.ts';
import { StorageError } from '../files/durable-file.ts';
import { readUntrustedFile } from '../files/untrusted-file.ts';
import { SystemError } from '../system-errors.ts';

export interface SerialNumberSettings {
  readonly serialNumber: string | undefined;
  readonly serialNumberFile: string | undefined;
}

/** The places where a machine may keep its serial number. */
export interface SerialNumberSources {
  readonly readFile: (path: string) => Promise<string | undefined>;
  /** The serial numbers in DMI, best first. */
  readonly dmi: () => Promise<readonly string[]>;
}

const machineSources: SerialNumberSources = {
  readFile: async (path) => {
    const reading = undefinedIfMissing(readUntrustedFile(path, { maxBytes: MAX_FILE_BYTES }));
    return (await mapError(reading, (error) => new StorageError('read', path, error)))?.toString('utf8');
  },
  // a module of its own, since a bundle exports no names of a package that is imported dynamically
  dmi: async () => (await import('./device-facts.ts')).dmiSerialNumbers(),
};

/** Source: Devicetree Specification 0.4, 2.3.1 root node. The kernel keeps the older path as a link. */
const DEVICE_TREE_FILES = ['/sys/firmware/devicetree/base/serial-number', '/proc/device-tree/serial-number'];

const MAX_FILE_BYTES = 64 * 1024;

const DMI_DEADLINE_MS = 20_000;

/**
 * The gateway's serial number: as configured, else from the configured file, else from the hardware. If the configured
 * source fails, no other one is used: the gateway would become another thing.
 */
export async function findSerialNumber(
  settings: SerialNumberSettings,
  signal: AbortSignal,
  sources: SerialNumberSources = machineSources,
): Promise<string> {
  if (settings.serialNumber !== undefined) return settings.serialNumber.trim();
  const { serialNumberFile } = settings;
  if (serialNumberFile !== undefined) return readConfigured(serialNumberFile, sources);
  for (const path of DEVICE_TREE_FILES) {
    const found = usableSerialNumber(await sources.readFile(path));
    if (found !== undefined) return found;
  }
  for (const candidate of await dmiWithinDeadline(sources, signal)) {
    const found = usableSerialNumber(candidate);
    if (found !== undefined) return found;
  }
  throw unknownSerialNumber('the hardware (device tree, DMI) does not tell a serial number', 'give-up');
}

async function dmiWithinDeadline(sources: SerialNumberSources, signal: AbortSignal): Promise<readonly string[]> {
  const deadline = AbortSignal.timeout(DMI_DEADLINE_MS);
  try {
    return await abortable(sources.dmi(), AbortSignal.any([signal, deadline]));
  } catch (error) {
    signal.throwIfAborted();
    if (!deadline.aborted) throw error;
    throw unknownSerialNumber(`no response from DMI within ${DMI_DEADLINE_MS} ms`, 'retry');
  }
}

async function readConfigured(path: string, sources: SerialNumberSources): Promise<string> {
  const text = await sources.readFile(path);
  if (text === undefined) throw unknownSerialNumber(`${path} does not exist`, 'retry');
  const found = usableSerialNumber(text);
  if (found === undefined) throw unknownSerialNumber(`${path} holds no usable serial number`, 'retry');
  return found;
}

function unknownSerialNumber(why: string, remedy: 'retry' | 'give-up'): AgentError {
  return new SystemError('serial-number-unknown', `the serial number of this gateway is unknown: ${why}`, { remedy });
}

const MAX_LENGTH = 128;
const MIN_ROW = 5;

/**
 * Placeholders that vendors leave as serial number. They are compared without case, spaces and punctuation. Sources:
 * fwts, src/dmi/dmicheck/dmicheck.c (serial numbers and asset tags); lf-edge/eve PR#6381; systems seen in reports.
 */
const placeholders = new Set([
  '',
  'abcdefghijklm',
  'baseboardserialnumber',
  'chassisserial',
  'chassisserialnumber',
  'cutout',
  'default',
  'defaultstring',
  'empty',
  'fillbyoem',
  'invalid',
  'na',
  'noassetinformation',
  'noassettag',
  'none',
  'notapplicable',
  'notavailable',
  'notprovided',
  'notset',
  'notspecified',
  'notsupport',
  'notsupported',
  'notsupportedbycpu',
  'null',
  'oem',
  'oemchassisserialnumber',
  'productserial',
  'productserialnumber',
  'serial',
  'serialnumber',
  'sn',
  'sysserialnumber',
  'systemserial',
  'systemserialnumber',
  'tbd',
  'tbdbyodm',
  'tobedefinedbyoem',
  'tobefilledbyoem',
  'undefined',
  'unknow',
  'unknown',
]);
const numberedPlaceholder = /^(?:none|oemdefine|sernum|assettagnum|a1assettagnum)\d{1,2}$/;
/** `123456`, `0123456789`, `9876543210`: five digits in a row, or more. */
const rows = ['012345678901234567890', '9876543210'];

/**
 * Returns a serial number without surrounding white space and NUL, or undefined for a placeholder, one repeated
 * character, digits in a row, or garbage.
 */
export function usableSerialNumber(text: string | undefined): string | undefined {
  const trimmed = (text ?? '').replaceAll(/^[\s\0]+|[\s\0]+$/g, '');
  if (trimmed.length > MAX_LENGTH || !/^[\x20-\x7e]+$/.test(trimmed)) return undefined;
  const bare = trimmed.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  const isRow = bare.length >= MIN_ROW && rows.some((row) => row.includes(bare));
  if (isRow || placeholders.has(bare) || numberedPlaceholder.test(bare) || /^(.)\1*$/.test(bare)) return undefined;
  return trimmed;
}

/**
 * Returns why a serial number may cause trouble, although the service's interface permits every text, or undefined if
 * it is a plain one. It is part of addresses and logs, and people type it.
 */
export function serialNumberDoubt(serialNumber: string): string | undefined {
  const odd = [
    /\s/.test(serialNumber) && 'a blank',
    serialNumber.includes('/') && 'a slash',
    /[^\x20-\x7e]/.test(serialNumber) && 'a character beyond ASCII',
  ].filter((kind) => kind !== false);
  if (odd.length === 0) return undefined;
  return `${JSON.stringify(serialNumber)} has ${odd.join(' and ')} in it, with which some services cannot deal; a change after the activation makes the gateway another thing`;
}
