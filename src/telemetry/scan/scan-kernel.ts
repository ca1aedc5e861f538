import { join } from 'node:path';

import { abortable } from '../../system/abortable.ts';
import { AgentError } from '../../system/errors.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import { readingText } from '../sensors/sensor-report.ts';
import { unitOf } from '../sensors/unit.ts';
import type { SourceSettings } from '../settings.ts';
import { hwmonSource } from '../sources/kernel/hwmon.ts';
import { iioSource } from '../sources/kernel/iio.ts';
import { listDirectory, readKernelText } from '../sources/kernel/kernel-file.ts';
import { w1Source } from '../sources/kernel/w1.ts';
import type { PolledSource } from '../sources/source.ts';
import { EventNames, isPlainName, titleOf } from './found.ts';
import type { Found, ScanResult } from './found.ts';

const MAX_DEVICES = 64;
const MAX_FOUND = 256;
/** Reading a DS18B20 takes most of a second. */
const READ_MS = 3_000;

type KernelKind = 'hwmon' | 'iio' | 'w1';
type KernelSettings = Extract<SourceSettings, { readonly kind: KernelKind }>;

interface Candidate {
  readonly settings: KernelSettings;
  readonly source: PolledSource;
  /** Its names lead to another device. */
  readonly isShadowed: boolean;
}

/** Finds sensors that the kernel shows, below `root`, and reads each once as its source would. */
export async function scanKernel(kind: KernelKind, signal: AbortSignal, root = '/'): Promise<ScanResult> {
  const candidates = await candidatesOf[kind](root, signal);
  const names = new EventNames();
  const found: Found[] = [];
  for (const candidate of candidates.slice(0, MAX_FOUND)) found.push(await look(candidate, names, signal));
  return { found, isCut: candidates.length > MAX_FOUND };
}

async function look(
  { settings, source, isShadowed }: Candidate,
  names: EventNames,
  signal: AbortSignal,
): Promise<Found> {
  const { kind, ...place } = settings;
  const parts = Object.values(place);
  const unit = unitOf(settings);
  const title = titleOf(...parts);
  if (isShadowed) return { title, sensor: undefined, reading: undefined, unit, problem: 'same-name' };
  if (!parts.every(isPlainName)) return { title, sensor: undefined, reading: undefined, unit, problem: 'odd-name' };
  const reading = await readingOf(source, title, signal);
  const scaled = unit?.startsWith('m') === true ? { scale: 0.001 } : {};
  const sensor = { event: names.of(...parts), every: '10s', ...scaled, source: { kind, ...place } };
  return { title, sensor, reading, unit, problem: reading === undefined ? 'unreadable' : undefined };
}

async function readingOf(source: PolledSource, title: string, signal: AbortSignal): Promise<string | undefined> {
  const late = (): Error => new TelemetryError('source-timeout', `${title}: no reading within ${READ_MS} ms`);
  using deadline = new Deadline(READ_MS, late, signal);
  try {
    return readingText(await abortable(source.read(deadline.signal), deadline.signal));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) return undefined;
    throw error;
  }
}

const candidatesOf: Readonly<Record<KernelKind, (root: string, signal: AbortSignal) => Promise<readonly Candidate[]>>> =
  {
    hwmon: async (root, signal) =>
      namedDevices({ base: join(root, 'sys/class/hwmon'), signal }, hwmonInputs, (chip, input) => ({
        settings: { kind: 'hwmon', chip, input },
        source: hwmonSource(chip, input, root),
      })),
    iio: async (root, signal) =>
      namedDevices({ base: join(root, 'sys/bus/iio/devices'), signal }, iioChannels, (device, channel) => ({
        settings: { kind: 'iio', device, channel },
        source: iioSource(device, channel, root),
      })),
    w1: thermometers,
  };

function hwmonInputs(files: readonly string[]): readonly string[] {
  return files.flatMap((file) => /^((?:temp|in|curr|power|energy|fan|humidity)\d{1,4})_input$/.exec(file)?.[1] ?? []);
}

function iioChannels(files: readonly string[]): readonly string[] {
  const channels = files.flatMap((file) => /^(in_[\w-]{1,64})_(?:input|raw)$/.exec(file)?.[1] ?? []);
  return [...new Set(channels)];
}

/** The devices with their inputs. Of devices with the same name only the first one can be read. */
async function namedDevices(
  { base, signal }: { readonly base: string; readonly signal: AbortSignal },
  inputsOf: (files: readonly string[]) => readonly string[],
  make: (name: string, input: string) => Omit<Candidate, 'isShadowed'>,
): Promise<readonly Candidate[]> {
  const seen = new Set<string>();
  const found: Candidate[] = [];
  for (const device of (await listDirectory(base)).slice(0, MAX_DEVICES)) {
    const files = await listDirectory(join(base, device));
    if (!files.includes('name')) continue;
    const name = await readKernelText(join(base, device, 'name'), signal);
    if (name === undefined) continue;
    found.push(...inputsOf(files).map((input) => Object.assign(make(name, input), { isShadowed: seen.has(name) })));
    seen.add(name);
  }
  return found;
}

async function thermometers(root: string): Promise<readonly Candidate[]> {
  const base = join(root, 'sys/bus/w1/devices');
  const found: Candidate[] = [];
  for (const device of (await listDirectory(base)).slice(0, MAX_DEVICES)) {
    const files = await listDirectory(join(base, device));
    if (!files.includes('temperature')) continue;
    found.push({ settings: { kind: 'w1', device }, source: w1Source(device, root), isShadowed: false });
  }
  return found;
}
