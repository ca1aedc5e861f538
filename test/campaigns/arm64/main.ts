import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { runProgram } from '../../../src/system/processes/child-process.ts';
import { buildDeb } from '../../../systemd/make/deb.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { blockOf, readPage } from '../../page-examples.ts';
import { runTool, WrongUse } from '../../tool.ts';
import { bootOnce } from './boot.ts';
import { startForeignPrograms } from './foreign-programs.ts';

const help = `npm run arm64 [-- --boot [--deb FILE] [--console]]

Builds the package for arm64, unpacks it, and types with it what the page about a first update has, from the key to the
committed release, on whatever machine this is: its programs run by qemu-user, with Debian's libraries for arm64
(apt install qemu-user-static libc6-arm64-cross libstdc++6-arm64-cross libatomic1-arm64-cross).

  --boot     a whole gateway instead: Debian for arm64 with the package by apt, agent setup and systemctl enable, on a disk of
             systemd/images with slots A and B; UEFI, GRUB, kernel, systemd and the agent in an emulated machine, until it is
             activated and has taken an update, and agent doctor said each time that all is well. For root (apt install
             qemu-user-static qemu-system-arm mmdebstrap dosfstools mtools gdisk grub-common mender-artifact socat); the
             kernel of this machine is told to start programs of arm64 by qemu-user (binfmt_misc), and keeps that until it
             restarts
  --deb      its package, in place of one that is made now
  --console  show its console`;

const EMULATOR = '/usr/bin/qemu-aarch64-static';
const MACHINE = '/usr/bin/qemu-system-aarch64';
const LIBRARIES = '/usr/aarch64-linux-gnu';
const MOST_MS = 600_000;

const options = {
  boot: { type: 'boolean', default: false },
  deb: { type: 'string' },
  console: { type: 'boolean', default: false },
} as const;

await runTool(help, options, async ({ boot, deb, console: isShown }) => {
  if (deb !== undefined && !existsSync(deb)) throw new WrongUse(`--deb names ${deb}, which is not there`);
  const libraries = [join(LIBRARIES, 'lib/libstdc++.so.6'), join(LIBRARIES, 'lib/libatomic.so.1')];
  const missing = boot ? [EMULATOR, MACHINE] : [EMULATOR, ...libraries];
  const lacks = missing.filter((path) => !existsSync(path));
  if (lacks.length > 0) {
    console.error(`${lacks.join(', ')}: not there; --help says what is needed`);
    return 69;
  }
  if (boot && process.getuid?.() !== 0) throw new WrongUse('--boot is for root: it makes a root file system');
  if (boot) await startForeignPrograms();
  const folder = await mkdtemp(join(tmpdir(), 'arm64-'));
  try {
    if (!boot) return await firstUpdate(folder);
    return await bootOnce({ folder, deb, onLine: isShown ? (line) => console.log(line) : undefined });
  } finally {
    await rm(folder, { recursive: true });
  }
});

async function firstUpdate(folder: string): Promise<number> {
  const root = join(folder, 'root');
  await tool(['dpkg', '-x', await buildDeb({ out: join(folder, 'deb'), arch: 'arm64' }), root]);
  const agent = await emulated(root, join(folder, 'bin'));
  const page = await readPage('first-update.md');
  const typed = ['release', 'gateway', 'file'].map((name) => blockOf(page, `sh first-update ${name}`)).join('\n');
  const script = typed.replaceAll('/tmp/thing-gateway', join(folder, 'gateway'));
  const startMs = performance.now();
  const { exitCode, stdout, stderr } = await runProgram(
    ['sh', '-ec', `agent() { "${agent}" "$@"; }\n${script}`],
    { timeoutMs: MOST_MS },
    AbortSignal.timeout(MOST_MS),
  );
  const isDone = exitCode === 0 && stdout.endsWith('slot B contains the release\n');
  console.log(isDone ? stdout : `${stdout}\n${stderr}`);
  console.log(`${isDone ? 'ok' : 'FAILED'} in ${Math.round((performance.now() - startMs) / 1000)} s`);
  return isDone ? 0 : 1;
}

/** A program that runs the unpacked agent. */
async function emulated(root: string, folder: string): Promise<string> {
  const library = join(root, 'usr/lib/thing-agent');
  const version = (await readdir(library)).find((name) => /^\d/.test(name));
  if (version === undefined) throw new Error(`${library} has no version`);
  const [node, main] = [join(library, version, 'bin/node'), join(library, version, 'lib/main.js')];
  const program = join(folder, 'agent');
  // The emulator looks there first for every path: it must have the libraries, and nothing else that this machine has.
  const libraries = join(folder, 'libraries');
  await mkdir(libraries, { recursive: true });
  await symlink(join(LIBRARIES, 'lib'), join(libraries, 'lib'));
  await writeFile(program, `#!/bin/sh\nexec ${EMULATOR} -L ${libraries} ${node} --no-warnings ${main} "$@"\n`);
  await chmod(program, 0o755);
  return program;
}
