import { join } from 'node:path';

import { abortable } from '../../system/abortable.ts';
import { AgentError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { scaled } from '../downsampling.ts';
import { TelemetryError } from '../errors.ts';
import { readingText } from '../reading-text.ts';
import { unitOf, wholeUnit } from '../sensors/unit.ts';
import type { SourceSettings } from '../settings.ts';
import { distinctNames, listDevices } from '../sources/kernel/devices.ts';
import type { DeviceClass } from '../sources/kernel/devices.ts';
import { hwmonChips, hwmonSource, inputsOf, thermalSource, thermalZones } from '../sources/kernel/hwmon.ts';
import { channelsOf, iioDevices, iioSource } from '../sources/kernel/iio.ts';
import { listDirectory, readKernelText } from '../sources/kernel/kernel-file.ts';
import { w1Source } from '../sources/kernel/w1.ts';
import type { PolledSource, Reading } from '../sources/source.ts';
import { EventNames, isPlainName, titleOf } from './scan-result.ts';
import type { ScanCandidate, ScanResult } from './scan-result.ts';

const MAX_DEVICES = 64;
const MAX_FOUND = 256;
/** Reading a DS18B20 takes most of a second. */
const READ_MS = 3_000;

type KernelKind = 'hwmon' | 'thermal' | 'iio' | 'w1';
type KernelSettings = Extract<SourceSettings, { readonly kind: KernelKind }>;

interface Candidate {
  readonly settings: KernelSettings;
  readonly source: PolledSource;
  /** The name that the designer of the board or the driver gives this input, or an empty text. */
  readonly label: string;
  /** True if other devices have its name, and nothing lasting tells it apart. */
  readonly isAlike: boolean;
}

/** Finds sensors that the kernel shows, below `root`, and reads each once as its source would. */
export async function scanKernel(kind: KernelKind, signal: AbortSignal, root = '/'): Promise<ScanResult> {
  const candidates = kind === 'w1' ? await thermometers(root) : await candidatesIn(classes[kind], root, signal);
  const names = new EventNames();
  const found: ScanCandidate[] = [];
  for (const candidate of candidates.slice(0, MAX_FOUND)) found.push(await tryCandidate(candidate, names, signal));
  return { found, isCut: candidates.length > MAX_FOUND };
}

async function tryCandidate(candidate: Candidate, names: EventNames, signal: AbortSignal): Promise<ScanCandidate> {
  const { settings, source, label, isAlike } = candidate;
  const { kind, ...place } = settings;
  const parts = Object.values(place);
  const unit = unitOf(settings);
  const whole = wholeUnit(unit);
  const title = titleOf(...parts, ...(label === '' ? [] : [`(${label})`]));
  const nothing = { title, sensor: undefined, reading: undefined, unit: whole ?? unit };
  if (isAlike) return { ...nothing, problem: 'same-name' };
  if (!parts.every(isPlainName)) return { ...nothing, problem: 'odd-name' };
  const scale = whole === undefined ? {} : { scale: 0.001 };
  const sensor = { event: names.of(...parts), every: '10s', ...scale, source: { kind, ...place } };
  const { value, why } = await readOnce(source, signal);
  if (why !== undefined) return { ...nothing, sensor, problem: 'unreadable', why };
  const read = readingText(value);
  const thousandth = scaled(value, { scale: 0.001, offset: undefined, over: undefined });
  const sent = whole === undefined ? {} : { reading: readingText(thousandth), raw: `${read} ${unit}` };
  return { ...nothing, sensor, reading: read, ...sent, problem: undefined };
}

async function readOnce(source: PolledSource, signal: AbortSignal): Promise<{ value: Reading; why?: string }> {
  const late = (): Error => new TelemetryError('source-timeout', `no reading within ${READ_MS} ms`);
  using deadline = new Deadline(READ_MS, late, signal);
  try {
    return { value: await abortable(source.read(deadline.signal), deadline.signal) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AgentError)) throw error;
    return { value: undefined, why: error.message };
  }
}

interface KernelClass {
  readonly devices: (root: string) => DeviceClass;
  readonly inputs: (files: readonly string[]) => readonly string[];
  readonly settings: (device: string, input: string) => KernelSettings;
  readonly source: (device: string, input: string, root: string) => PolledSource;
}

const classes: Readonly<Record<Exclude<KernelKind, 'w1'>, KernelClass>> = {
  hwmon: {
    devices: hwmonChips,
    inputs: inputsOf,
    settings: (chip, input) => ({ kind: 'hwmon', chip, input }),
    source: hwmonSource,
  },
  iio: {
    devices: iioDevices,
    inputs: channelsOf,
    settings: (device, channel) => ({ kind: 'iio', device, channel }),
    source: iioSource,
  },
  thermal: {
    devices: thermalZones,
    inputs: (files) => files.filter((file) => file === 'temp'),
    settings: (zone) => ({ kind: 'thermal', zone }),
    source: (zone, _, root) => thermalSource(zone, root),
  },
};

/** The inputs of all devices, each by a name that only this device has. */
async function candidatesIn(
  { devices, inputs, settings, source }: KernelClass,
  root: string,
  signal: AbortSignal,
): Promise<readonly Candidate[]> {
  const all = (await listDevices(devices(root), signal)).slice(0, MAX_DEVICES);
  const names = await distinctNames(all, signal);
  const found: Candidate[] = [];
  for (const [index, { directory, name: shared }] of all.entries()) {
    const device = names[index] ?? shared;
    const files = await listDirectory(directory);
    for (const input of inputs(files)) {
      const file = `${input}_label`;
      const label = files.includes(file) ? await readKernelText(join(directory, file), signal) : undefined;
      const of = { settings: settings(device, input), source: source(device, input, root) };
      found.push({ ...of, label: label ?? '', isAlike: names[index] === undefined });
    }
  }
  return found;
}

async function thermometers(root: string): Promise<readonly Candidate[]> {
  const base = join(root, 'sys/bus/w1/devices');
  const found: Candidate[] = [];
  for (const device of (await listDirectory(base)).slice(0, MAX_DEVICES)) {
    const files = await listDirectory(join(base, device));
    if (!files.includes('temperature') && !files.includes('w1_slave')) continue;
    found.push({ settings: { kind: 'w1', device }, source: w1Source(device, root), label: '', isAlike: false });
  }
  return found;
}
