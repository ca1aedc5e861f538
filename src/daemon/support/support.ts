import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import process from 'node:process';

import * as z from 'zod';

import type { Support } from '../../cli/context.ts';
import type { Config } from '../../config/config.ts';
import { parseToml, TomlSyntaxError, writeToml } from '../../config/file/toml.ts';
import { effectiveConfig, loadConfig } from '../../config/load-config.ts';
import { readConfigText } from '../../config/read-config.ts';
import { configSchema } from '../../config/schema/schema.ts';
import { createBootloader, checkBootStorage } from '../../slots/bootloaders/create-bootloader.ts';
import { identityAt } from '../../slots/device-identity.ts';
import { findMountedSlot, refuseStateOnSlot } from '../../slots/mounts.ts';
import { AgentError, systemErrorCode, valueOrError, valueOrUndefined } from '../../system/errors.ts';
import { silentLog } from '../../system/log/log.ts';
import { MASK } from '../../system/log/secrets.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { PageError } from '../../web/page-errors.ts';
import { noSlotsError } from '../doctor/preconditions.ts';
import { slotsOf } from '../doctor/state-directory.ts';
import { hasBootloader } from '../wiring/settings.ts';
import { gatewaySecrets } from './gateway-secrets.ts';

/** The parts of a report for a supporter, as far as the configuration can be read. */
export async function openSupport(path: string, environment: Environment): Promise<Support> {
  const loaded = await valueOrError(loadConfig(path, environment));
  const config = loaded instanceof AgentError ? undefined : loaded.config;
  const text = await valueOrError(readConfigText(path, async () => []));
  const configText = text instanceof AgentError ? undefined : text;
  const stateDirectory = config?.paths.state ?? likelyStateDirectory(configText, environment);
  const slots = slotsOf({ targets: config?.targets ?? [] });
  const needed = (): Config => {
    if (loaded instanceof AgentError) throw loaded;
    return loaded.config;
  };
  return {
    stateDirectory,
    secrets: await gatewaySecrets({ stateDirectory, configText, environment }),
    kernelNames: async () => kernelNamesOf(needed()),
    configuration: async () => redactedConfig(path, environment),
    bootEnvironment: async (signal) => bootEnvironmentOf(needed(), signal),
    slotUnder: async (file) => slotUnder(file, slots),
  };
}

/** The probable state directory of a configuration that cannot be used as a whole. */
function likelyStateDirectory(configText: string | undefined, environment: Environment): string {
  const [given = ''] = (environment['STATE_DIRECTORY'] ?? '').split(':', 1);
  if (isAbsolute(given)) return given;
  const { paths } = configSchema.shape;
  try {
    return paths.parse(parseToml(configText ?? '')['paths'] ?? {}).state;
  } catch (error) {
    if (!(error instanceof TomlSyntaxError) && !(error instanceof z.ZodError)) throw error;
    return paths.parse({}).state;
  }
}

/** The boot environment as the agent reads it and, if possible, the state of its storage. An error takes the place of a value. */
async function bootEnvironmentOf({ targets }: Config, signal: AbortSignal): Promise<unknown> {
  const target = targets.find(hasBootloader);
  if (target === undefined) throw noSlotsError();
  const mountedSlot = async (): ReturnType<typeof findMountedSlot> => findMountedSlot(target.slots);
  const bootloader = await createBootloader(target, { mountedSlot, log: silentLog });
  return {
    bootloader: target.bootloader.kind,
    booted: await valueOrReason(bootloader.bootedSlot(signal)),
    state: await valueOrReason(bootloader.inspect(signal)),
    storage: await valueOrReason(checkBootStorage(target.bootloader, { run: runProgram }, signal)),
  };
}

async function valueOrReason<T>(reading: Promise<T>): Promise<T | { readonly error: string }> {
  const value = await valueOrError(reading);
  return value instanceof AgentError ? { error: `${value.message} (${value.code})` } : value;
}

/** The slot that is this file, or that holds the folder into which the file would be written. */
async function slotUnder(file: string, slots: readonly string[]): Promise<string | undefined> {
  const identity = await identityAt(file);
  for (const slot of slots) if (identity !== undefined && (await identityAt(slot)) === identity) return slot;
  for (const slot of slots) {
    try {
      await refuseStateOnSlot(await realpath(dirname(file)), [slot]);
    } catch (error) {
      if (error instanceof AgentError && error.code === 'state-on-slot') return slot;
      if (systemErrorCode(error) === 'ENOENT' || systemErrorCode(error) === 'ENOTDIR') return undefined; // writing will fail and tell
      if (!(error instanceof AgentError)) throw error;
    }
  }
  return undefined;
}

/**
 * Guarantee `secrecy`: returns the effective configuration as TOML for readers other than its operator. A program is
 * reduced to its name, since its arguments may be anything, and the keys that a board's menu expects are left out.
 * Throws ConfigError.
 */
async function redactedConfig(path: string, environment: Environment): Promise<string> {
  const effective = await effectiveConfig(path, environment);
  return writeToml(Object.fromEntries(Object.entries(effective).map(([key, value]) => [key, redacted(key, value)])));
}

const typedKeys: ReadonlySet<string> = new Set(['upload_keys', 'start_keys']);

function redacted(key: string, value: unknown): unknown {
  if (typedKeys.has(key)) return MASK;
  if (Array.isArray(value)) {
    const isCommand = /command/.test(key) && value.every((word) => typeof word === 'string');
    return isCommand ? value.map((word, index) => (index === 0 ? word : MASK)) : value.map((one) => redacted(key, one));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, redacted(name, one)]));
}

/** The names that the kernel's messages use for the configured devices: `mmcblk0`, `ttyUSB0`, `usb 1-1.2`. */
async function kernelNamesOf({ targets, measurements }: Config): Promise<readonly string[]> {
  const paths = [
    ...slotsOf({ targets }),
    ...targets.flatMap((target) => (target.kind === 'mcu' ? [target.port] : [])),
    ...measurements.flatMap(({ source }) => ('port' in source && typeof source.port === 'string' ? [source.port] : [])),
  ];
  const names: string[] = [];
  for (const path of paths) {
    const device = await valueOrUndefined(realpath(path));
    if (device?.startsWith('/dev/') === true)
      names.push(diskOf(basename(device)), ...(await usbNames(basename(device))));
  }
  const buses = measurements.flatMap(({ source }) => (busWords.has(source.kind) ? [source.kind] : []));
  return [...new Set([...names, ...buses])];
}

const busWords: ReadonlySet<string> = new Set(['iio', 'w1', 'hwmon']);

/** The disk of a partition, since the kernel's messages name the disk. */
function diskOf(name: string): string {
  const [, numbered] = /^((?:mmcblk|nvme\d{1,4}n|loop|nbd)\d{1,4})p\d{1,4}$/.exec(name) ?? [];
  const [, lettered] = /^((?:sd|vd|hd|xvd)[a-z]{1,3})\d{1,4}$/.exec(name) ?? [];
  return numbered ?? lettered ?? name;
}

/** The USB port on which a serial port hangs: `…/usb1/1-1/1-1.2/1-1.2:1.0/ttyUSB0`. */
async function usbNames(tty: string): Promise<readonly string[]> {
  const device = await valueOrUndefined(realpath(join('/sys/class/tty', tty, 'device')));
  const plug = device?.split('/').findLast((part) => /^\d{1,3}-[\d.]{1,32}$/.test(part));
  return plug === undefined ? [] : [`usb ${plug}`];
}

const BUNDLE_TIMEOUT_MS = 4 * 60_000;
const MAX_BUNDLE_OUTPUT_BYTES = 64 * 1024;

/** Runs `agent support-bundle` of this program, which removes secrets, and returns its file. Throws AgentError. */
export async function ownSupportBundle(
  configPath: string,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly content: Buffer }> {
  const name = 'support-bundle.tar.gz';
  const directory = await mkdtemp(join(tmpdir(), 'support-bundle-'));
  try {
    const file = join(directory, name);
    const program = [...process.execArgv, process.argv[1] ?? ''];
    const command = [process.execPath, ...program, '--config', configPath, 'support-bundle', file] as const;
    const options = { timeoutMs: BUNDLE_TIMEOUT_MS, maxOutputBytes: MAX_BUNDLE_OUTPUT_BYTES };
    const { exitCode, stderr } = await runProgram(command, options, signal);
    if (exitCode !== 0) throw new PageError('bundle-failed', `agent support-bundle failed: ${stderr.trim()}`);
    return { name, content: await readFile(file) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
