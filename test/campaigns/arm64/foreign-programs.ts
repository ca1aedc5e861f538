import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';

import { tool } from '../../fakes/machine/tool.ts';

const FOLDER = '/proc/sys/fs/binfmt_misc';
const ENTRY = `${FOLDER}/qemu-aarch64`;
/** The rule of qemu-user-static for systemd-binfmt. */
const RULE = '/usr/lib/binfmt.d/qemu-aarch64.conf';

/**
 * Replaces systemd-binfmt where it does not run: the kernel then starts programs of arm64, also in a chroot without the
 * emulator.
 */
export async function startForeignPrograms(): Promise<void> {
  if (!existsSync(`${FOLDER}/register`)) await tool(['mount', '-t', 'binfmt_misc', 'none', FOLDER]);
  if (!existsSync(ENTRY)) await writeFile(`${FOLDER}/register`, await readFile(RULE));
  // "F" of its flags: the emulator was opened then, and a chroot needs none
  const flags = /^flags: (.*)$/m.exec(await readFile(ENTRY, 'utf8'))?.[1];
  if (flags?.includes('F') !== true) throw new Error(`${ENTRY} lacks the flag F: echo -1 >${ENTRY}, and start again`);
}
