import { readFile, readdir, writeFile } from 'node:fs/promises';

export interface ProcessMemory {
  readonly rssMib: number;
  /** Pages that several processes share count in parts. */
  readonly pssMib: number;
  /** What no other process shares and no file holds. */
  readonly privateDirtyMib: number;
}

export interface ProcessWork {
  readonly cpuMs: number;
  /** How often one of its threads had waited and went on. */
  readonly wakeUps: number;
}

const TICK_MS = 10;

/** proc_pid_smaps(5) */
export async function memoryOf(pid: number): Promise<ProcessMemory> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  const mib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
  return { rssMib: mib('Rss'), pssMib: mib('Pss'), privateDirtyMib: mib('Private_Dirty') };
}

/** Since it was started: of all its threads (schedstat, proc_pid_status(5)), and of children that have ended. */
export async function workOf(pid: number): Promise<ProcessWork> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  let cpuMs = ((fields[13] ?? NaN) + (fields[14] ?? NaN)) * TICK_MS;
  let wakeUps = 0;
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${thread}`;
    cpuMs += Number((await readFile(`${folder}/schedstat`, 'utf8')).split(' ')[0]) / 1e6;
    const status = await readFile(`${folder}/status`, 'utf8');
    wakeUps += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
  }
  return { cpuMs, wakeUps };
}

/** proc_pid_clear_refs(5): the peak is counted from now on. */
export async function forgetPeak(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, '5');
}

/** Of the resident set, in MiB: proc_pid_status(5). */
export async function peakOf(pid: number): Promise<number> {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kibibytes) / 1024;
}
