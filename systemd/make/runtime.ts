import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { z } from 'zod';

/**
 * Node's program for a gateway. It runs as root there, so it is never taken as it is found: its bytes are compared with the
 * digest that the project pins in runtimes.json, and its ELF header with the requested architecture.
 */

const project = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** Architectures as in `process.arch`, and e_machine of their programs (ELF specification, "ELF Header"). */
const machines = { x64: 62, arm64: 183 } as const;

export type Architecture = keyof typeof machines;

/** As in the names of GNU's tools. */
const triplets = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' } as const;

const pins = z.strictObject({
  version: z.string(),
  sha256: z.strictObject({ x64: z.hex(), arm64: z.hex() }),
});

/** Returns the architecture for `arm64`, `x64`, or Debian's `amd64`. */
export function architectureNamed(name: string): Architecture {
  if (name === 'arm64') return name;
  if (name === 'x64' || name === 'amd64') return 'x64';
  throw new Error(`there is no runtime for ${name}: build for x64 (amd64) or arm64`);
}

/** Returns Debian's name of an architecture, which packages and archives have in their names. */
export function debianNameOf(arch: Architecture): string {
  return arch === 'x64' ? 'amd64' : arch;
}

/** Returns the directories that may have the license text of a given runtime: as in Node's archives, and as in Debian. */
export function givenLicenseDirectories(node: string): readonly string[] {
  const prefix = join(dirname(node), '..');
  return [prefix, join(prefix, 'share/doc/nodejs')];
}

/** Returns the directories that may have the license text of the pinned runtime: the packages of all architectures have the same. */
export function pinnedLicenseDirectories(): readonly string[] {
  return Object.keys(machines).map((arch) => join(project, `node_modules/node-linux-${arch}`));
}

export async function pinnedRuntimes(): Promise<z.output<typeof pins>> {
  return pins.parse(JSON.parse(await readFile(join(import.meta.dirname, 'runtimes.json'), 'utf8')));
}

/**
 * Puts the pinned program for the architecture at a place: from the package that is installed here, or, for another
 * architecture, from its package at the npm registry (kept in .cache/). Throws where it is another program.
 */
export async function copyPinnedRuntime(arch: Architecture, to: string): Promise<void> {
  const { version, sha256 } = await pinnedRuntimes();
  const spec = `node-linux-${arch}@${version}`;
  const cached = join(project, `.cache/runtimes/${spec}`);
  const places = [join(project, `node_modules/node-linux-${arch}/bin/node`), cached].filter((place) =>
    existsSync(place),
  );
  for (const place of places) if (await copyIfPinned(place, to, sha256[arch])) return;
  await fetchRuntime(spec, cached);
  if (await copyIfPinned(cached, to, sha256[arch])) return;
  await rm(cached);
  throw new Error(`${spec} holds another program than the one that systemd/make/runtimes.json pins`);
}

/** The copy is what is compared, so that nothing can change in between. */
async function copyIfPinned(from: string, to: string, pinned: string): Promise<boolean> {
  await copyFile(from, to);
  return sha256(await readFile(to)) === pinned;
}

/** A program from the command line instead: its architecture is checked, not its content. */
export async function copyGivenRuntime(from: string, arch: Architecture, to: string): Promise<void> {
  const machine = await machineOf(from);
  if (machine !== machines[arch]) throw new Error(`${from} is no program for ${arch}`);
  await copyFile(from, to);
}

/** Takes out what only a debugger reads, a fifth of it. Its symbols for native parts of packages stay. */
export async function stripProgram(file: string, arch: Architecture): Promise<void> {
  const program = `${triplets[arch]}-strip`;
  try {
    await run(program, ['--strip-unneeded', '--remove-section=.comment', '--remove-section=.note', file], {
      timeout: 120_000,
    });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    throw new Error(`${program} is missing: apt-get install binutils-${triplets[arch].replace('_', '-')}`, {
      cause: error,
    });
  }
}

async function fetchRuntime(spec: string, place: string): Promise<void> {
  await mkdir(dirname(place), { recursive: true });
  const folder = await mkdtemp(`${place}.`);
  try {
    await packedByNpm(spec, folder);
    const [archive = ''] = await readdir(folder);
    await run('tar', ['-xzf', join(folder, archive), '-C', folder, 'package/bin/node'], { timeout: 120_000 });
    await rename(join(folder, 'package/bin/node'), place);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function packedByNpm(spec: string, folder: string): Promise<void> {
  try {
    await run('npm', ['pack', spec, '--pack-destination', folder], { cwd: project, timeout: 600_000 });
  } catch (error) {
    const why = /npm error (?!code)(.*)/.exec(String(error))?.[1] ?? String(error);
    throw new Error(`npm cannot fetch ${spec} (${why}). Without a network, name the program with --node FILE`, {
      cause: error,
    });
  }
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Returns e_machine of a little-endian ELF file, or undefined for other files. */
async function machineOf(path: string): Promise<number | undefined> {
  await using file = await open(path, 'r');
  const header = Buffer.alloc(20);
  const { bytesRead } = await file.read(header, 0, header.length, 0);
  const isElf = bytesRead === header.length && header.readUInt32BE(0) === 0x7f454c46 && header[5] === 1;
  return isElf ? header.readUInt16LE(18) : undefined;
}
