import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import process from 'node:process';

import { runProgram } from '../../../../src/system/processes/child-process.ts';

const program = resolve(import.meta.dirname, '../../../../systemd/trial-guard');
const DEADLINE_MS = 60_000;

export interface NetPlace {
  /** Directory of `boot-id`, `command-line`, the agent's run directory and `reset`. */
  readonly folder: string;
  readonly state: string;
  /** The slot's fstab names the state partition, which is mounted then. */
  readonly isStateMounted: boolean;
  readonly onLine: (line: string) => void;
}

/**
 * Runs the trial guard as its timer does in a slot where no agent starts: the real program, with a systemctl(1) whose reboot is a
 * reset of this machine. Half an hour has passed, as it seems to it.
 */
export async function runSafetyNet({ folder, state, isStateMounted, onLine }: NetPlace): Promise<void> {
  const bin = join(folder, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'systemctl'), systemctl(folder, isStateMounted), { mode: 0o755 });
  await writeFile(join(folder, 'uptime'), '1801.00 1700.00\n');
  const env = {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    STATE_DIRECTORY: state,
    RUNTIME_DIRECTORY: join(folder, 'run'),
    BOOT_ID_FILE: join(folder, 'boot-id'),
    COMMAND_LINE_FILE: join(folder, 'command-line'),
    TRYBOOT_FILE: join(folder, 'no-device-tree'),
    UPTIME_FILE: join(folder, 'uptime'),
    PATIENCE: '0',
  };
  const never = new AbortController().signal;
  const { exitCode, stdout, stderr } = await runProgram([program], { env, timeoutMs: DEADLINE_MS }, never);
  for (const line of `${stdout}${stderr}`.split('\n'))
    if (line !== '') onLine(`trial-guard: ${line.replace(/^<\d>/, '')}`);
  const end = existsSync(join(folder, 'reset')) ? 'reboots' : 'leaves the machine as it is';
  onLine(`trial-guard: exit ${exitCode}, ${end}`);
}

function systemctl(folder: string, isStateMounted: boolean): string {
  const mounted = String.raw`case $3 in *-state.mount) printf 'LoadState=loaded\nActiveState=active\n'; exit ;; esac`;
  return `#!/bin/sh
case $1 in
show)
  ${isStateMounted ? mounted : ':'}
  printf 'LoadState=not-found\\nActiveState=inactive\\n' ;;
reboot) : >'${folder}/reset' ;;
esac
`;
}
