import { statfs } from 'node:fs/promises';
import { join } from 'node:path';

import { describeError } from '../../system/errors.ts';
import { readKernelFile, readKernelNumber } from './kernel/kernel-file.ts';
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
  load1: async ({ root }, signal) => readKernelNumber(join(root, 'proc/loadavg'), signal),
  uptime: async ({ root }, signal) => Math.floor(await readKernelNumber(join(root, 'proc/uptime'), signal)),
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
  cpu_temperature: async ({ root }, signal) =>
    (await readKernelNumber(join(root, 'sys/class/thermal/thermal_zone0/temp'), signal)) / 1_000,
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

/** The sum over all interfaces except the loopback; columns as in proc_pid_net(5), dev. */
async function network(root: string, column: number, signal: AbortSignal): Promise<number> {
  const lines = (await readKernelFile(join(root, 'proc/net/dev'), signal)).split('\n').slice(2);
  const rows = lines
    .map((line) => /^\s*([^:\s]+):\s*(.*)$/.exec(line))
    .filter((row) => row !== null && row[1] !== 'lo');
  return rows.reduce((sum, row) => sum + Number(row?.[2]?.split(/\s+/)[column] ?? 0), 0);
}

async function room(path: string): Promise<{ readonly free: number; readonly total: number }> {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return { free: bavail * bsize, total: blocks * bsize };
  } catch (error) {
    throw sourceFailed(path, describeError(error), error);
  }
}

function percent(part: number, whole: number): number {
  return Math.round((part / whole) * 1_000) / 10;
}
