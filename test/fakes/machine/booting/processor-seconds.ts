import { readFileSync } from 'node:fs';

/** Unit of `times` in proc(5): the same on every machine that Node runs on. */
const TICKS_PER_SECOND = 100;

/** Returns a process's processor time in user and kernel mode, or undefined if it has ended. */
export function processorSeconds(pid: number): number | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // behind the name, which may hold anything: proc(5), fields 14 and 15
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
