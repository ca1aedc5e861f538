import { readFile, readdir, writeFile } from 'node:fs/promises';

import { systemErrorCode } from '../../../src/system/errors.ts';

export interface ProcessMemory {
  readonly rssMib: number;
  /** Pages that several processes share count in parts. */
  readonly pssMib: number;
  /** Memory that is neither shared with another process nor backed by a file. */
  readonly privateDirtyMib: number;
}

export interface ProcessWork {
  readonly cpuMs: number;
  /** Number of times that one of its threads continued after a wait. */
  readonly wakeUps: number;
}

const TICK_MS = 10;

/** proc_pid_smaps(5) */
export async function memoryOf(pid: number): Promise<ProcessMemory> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  const mib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
  return { rssMib: mib('Rss'), pssMib: mib('Pss'), privateDirtyMib: mib('Private_Dirty') };
}

/**
 * Since it was started: of all its threads, ended ones too, and of children that have ended (utime to cstime, proc_pid_stat(5);
 * Linux scales them to what the scheduler counted). Only threads that live know how often they were woken up.
 */
export async function workOf(pid: number): Promise<ProcessWork> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + field, 0);
  let wakeUps = 0;
  for (const thread of await readdir(`/proc/${pid}/task`)) wakeUps += await wakeUpsOf(`/proc/${pid}/task/${thread}`);
  return { cpuMs: ticks * TICK_MS, wakeUps };
}

/** Count of a thread; 0 for a thread that has ended since its directory was listed. */
async function wakeUpsOf(folder: string): Promise<number> {
  try {
    const status = await readFile(`${folder}/status`, 'utf8');
    return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(systemErrorCode(error) ?? '')) return 0;
    throw error;
  }
}

/** proc_pid_clear_refs(5): the peak is counted from now on. */
export async function forgetPeak(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, '5');
}

/** Peak of the resident set, in MiB: proc_pid_status(5). */
export async function peakOf(pid: number): Promise<number> {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kibibytes) / 1024;
}
