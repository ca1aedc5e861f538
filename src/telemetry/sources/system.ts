import { statfs } from 'node:fs/promises';
import { join } from 'node:path';

import { describeError, mapError } from '../../system/errors.ts';
import { listDevices } from './kernel/devices.ts';
import { hwmonChips, readInput, readZone, thermalZones } from './kernel/hwmon.ts';
import { listDirectory, readFirstNumber, readKernelFile, readKernelText } from './kernel/kernel-file.ts';
import { sourceFailed } from './source.ts';
import type { PolledSource, Reading } from './source.ts';
import type { SystemMetric } from './sources.ts';

export interface SystemDeps {
  readonly root?: string;
  /** The file system whose free space is measured. */
  readonly diskPath: string;
  /** The figures of the agent itself. */
  readonly agentFigures: () => Reading;
}

/** The machine's own figures, read from the kernel's files without starting a program. */
export function systemSource(metric: SystemMetric, deps: SystemDeps): PolledSource {
  const { root = '/' } = deps;
  return { kind: 'polled', read: async (signal) => readers[metric]({ ...deps, root }, signal) };
}

type Reader = (deps: Required<SystemDeps>, signal: AbortSignal) => Reading;

const readers: Readonly<Record<SystemMetric, Reader>> = {
  load1: async ({ root }, signal) => readFirstNumber(join(root, 'proc/loadavg'), signal),
  uptime: async ({ root }, signal) => Math.floor(await readFirstNumber(join(root, 'proc/uptime'), signal)),
  memory_available_bytes: async ({ root }, signal) => memory(root, 'MemAvailable', signal),
  memory_used_percent: async ({ root }, signal) => {
    const total = await memory(root, 'MemTotal', signal);
    return percent(total - (await memory(root, 'MemAvailable', signal)), total);
  },
  disk_free_bytes: async ({ diskPath }) => (await room(diskPath)).free,
  disk_used_percent: async ({ diskPath }) => {
    const { free, total } = await room(diskPath);
    return percent(total - free, total);
  },
  network_received_bytes: async ({ root }, signal) => network(root, 0, signal),
  network_sent_bytes: async ({ root }, signal) => network(root, 8, signal),
  cpu_temperature: async ({ root }, signal) => cpuTemperature(root, signal),
  // Raspberry Pi: a set of bits, 0 when all is well (raspberrypi.com, vcgencmd get_throttled).
  throttled: async ({ root }, signal) =>
    Number.parseInt(
      await readKernelFile(join(root, 'sys/devices/platform/soc/soc:firmware/get_throttled'), signal),
      16,
    ),
  agent_memory_bytes: () => process.memoryUsage.rss(),
  agent: ({ agentFigures }) => agentFigures(),
};

/** A value of proc_meminfo(5) in bytes. */
async function memory(root: string, name: string, signal: AbortSignal): Promise<number> {
  const path = join(root, 'proc/meminfo');
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(await readKernelFile(path, signal));
  if (match === null) throw sourceFailed(path, `has no ${name}`);
  return Number(match[1]) * 1_024;
}

/**
 * Types of thermal zones that measure the processor, the best first. The number of a zone is arbitrary: zone 0 of a PC is
 * often `acpitz`, which measures the board, or shows a constant.
 */
const cpuZones = [/^x86_pkg_temp$/, /cpu|core/i, /^(?:soc|package)[-_]thermal|^B0D4$/i];
/** Chips of PC processors that have no such zone. */
const cpuChips = /^(?:coretemp|k10temp|zenpower)$/;
const otherZones = /^(?:acpitz|iwlwifi|pch|gpu|batt)/i;

/** The temperature of the processor; of several zones the highest. */
async function cpuTemperature(root: string, signal: AbortSignal): Promise<number> {
  const zones = await listDevices(thermalZones(root), signal);
  const chips = await listDevices(hwmonChips(root), signal);
  const only = zones.filter(({ name }) => !otherZones.test(name));
  const choices = [
    ...cpuZones.map((type) => ({ found: zones.filter(({ name }) => type.test(name)), read: readZone })),
    { found: chips.filter(({ name }) => cpuChips.test(name)), read: readCpuChip },
    { found: only.length === 1 ? only : [], read: readZone },
  ];
  const { found = [], read = readZone } = choices.find((choice) => choice.found.length > 0) ?? {};
  const results = await Promise.allSettled(found.map(async ({ directory }) => read(directory, signal)));
  signal.throwIfAborted();
  const values = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  if (values.length > 0) return Math.max(...values);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  const types = zones.length === 0 ? 'none' : zones.map(({ name }) => name).join(', ');
  const advice = 'if one is the processor, use a source of kind "thermal"';
  throw sourceFailed('cpu_temperature', `no thermal zone is known to measure the processor (${types}); ${advice}`);
}

async function readCpuChip(directory: string, signal: AbortSignal): Promise<number> {
  return readInput(directory, 'temp1', signal);
}

/** Linux, include/uapi/linux/if_arp.h */
const ETHER = '1';
const PPP = '512';

/**
 * The sum over all interfaces on which bytes leave the machine; columns as in proc_pid_net(5), dev. Bridges, VLANs and
 * bonds count the bytes of the interface below again, and so do tunnels, such as PPP over Ethernet. The kernel does not
 * show which PPP interface is one: none counts while there is a PPPoE session. Without hardware, as in a container, the
 * Ethernet interfaces count.
 */
async function network(root: string, column: number, signal: AbortSignal): Promise<number> {
  const lines = (await readKernelFile(join(root, 'proc/net/dev'), signal)).split('\n').slice(2);
  const rows = lines.map((line) => /^\s*([^:\s]+):\s*(.*)$/.exec(line)).filter((row) => row !== null);
  const hardwareTypes = (await hasPppoe(root, signal)) ? [] : [PPP];
  const found = [];
  for (const [, name = '', figures = ''] of rows) {
    const directory = join(root, 'sys/class/net', name);
    const files = await listDirectory(directory);
    if (name === 'lo' || files.some((file) => file.startsWith('lower_'))) continue;
    const type = (await readKernelText(join(directory, 'type'), signal)) ?? ETHER;
    const bytes = Number(figures.split(/\s+/)[column] ?? 0);
    const isHardware = files.includes('device') || hardwareTypes.includes(type);
    found.push({ isHardware, isEthernet: type === ETHER, bytes });
  }
  const hardware = found.filter(({ isHardware }) => isHardware);
  const counted = hardware.length > 0 ? hardware : found.filter(({ isEthernet }) => isEthernet);
  return counted.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** True if the kernel has a session, below the heading of their table. */
async function hasPppoe(root: string, signal: AbortSignal): Promise<boolean> {
  const sessions = await readKernelText(join(root, 'proc/net/pppoe'), signal);
  return sessions?.includes('\n') ?? false;
}

async function room(path: string): Promise<{ readonly free: number; readonly total: number }> {
  const failed = (error: unknown): unknown => sourceFailed(path, describeError(error), error);
  const { bavail, blocks, bsize } = await mapError(statfs(path), failed);
  return { free: bavail * bsize, total: blocks * bsize };
}

function percent(part: number, whole: number): number {
  return Math.round((part / whole) * 1_000) / 10;
}
