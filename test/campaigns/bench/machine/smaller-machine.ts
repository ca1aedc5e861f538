import { mkdir, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Limits for the measured program only. Default: none. */
export interface SmallerMachine {
  /** Number of processors, starting with the first. */
  readonly cores?: number | undefined;
  /** Memory of it and its child processes, page cache included (memory cgroup). */
  readonly memoryMib?: number | undefined;
  /** OpenSSL, in whatever program, finds no instructions for SHA. */
  readonly withoutSha?: boolean | undefined;
}

type Argv = readonly [string, ...string[]];

/** OPENSSL_ia32cap(3): without bit 29 of EBX of CPUID leaf 7. */
const WITHOUT_SHA = ':~0x20000000';

/** The command as it runs on the smaller machine. */
export async function onSmallerMachine(
  argv: Argv,
  { cores, memoryMib, withoutSha = false }: SmallerMachine,
): Promise<{ readonly argv: Argv; readonly env: Readonly<Record<string, string>> } & AsyncDisposable> {
  const group = memoryMib === undefined ? undefined : await limitedGroup(memoryMib);
  const pinned: Argv = cores === undefined ? argv : ['taskset', '--cpu-list', `0-${cores - 1}`, ...argv];
  const joined: Argv =
    group === undefined ? pinned : ['sh', '-c', `echo 0 > '${group}/cgroup.procs'; exec "$@"`, 'sh', ...pinned];
  return {
    argv: joined,
    env: withoutSha ? { OPENSSL_ia32cap: WITHOUT_SHA } : {},
    [Symbol.asyncDispose]: async () => {
      if (group !== undefined) await rmdir(group);
    },
  };
}

let groups = 0;

/** A control group of version 2, or of version 1 on a machine with that. */
async function limitedGroup(memoryMib: number): Promise<string> {
  groups += 1;
  const name = `thing-agent-bench-${process.pid}-${groups}`;
  const isOld = await stat('/sys/fs/cgroup/memory').then(
    () => true,
    () => false,
  );
  const group = join(isOld ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup', name);
  await mkdir(group);
  await writeFile(join(group, isOld ? 'memory.limit_in_bytes' : 'memory.max'), String(memoryMib * 2 ** 20));
  return group;
}
