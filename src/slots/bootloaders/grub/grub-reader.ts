import * as realFs from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { valueOrError, AgentError } from '../../../system/errors.ts';
import { realSystem } from '../../device-identity.ts';
import type { KernelPaths } from '../../device-identity.ts';
import { coveringMount } from '../../mountinfo.ts';
import type { Mount } from '../../mountinfo.ts';
import { readMounts } from '../../mounts.ts';
import { bootFs } from '../boot-fs.ts';
import type { ProgramCommand, RunProgram } from '../boot-programs.ts';
import { BootloaderError, onFile } from '../errors.ts';
import { readFromMedium } from '../on-medium.ts';
import { BLOCK_BYTES, parseBlock } from './grub-block.ts';

/** The file systems that GRUB can write to, and that overwrite a file in place. */
const FIT = new Set(['ext2', 'ext3', 'ext4', 'vfat', 'msdos']);
const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 64 * 1024 };

export interface GrubReaderDeps {
  readonly run: RunProgram;
  readonly system?: KernelPaths;
}

/**
 * Guarantee `grub-durable`: checks that GRUB reads the data that Linux writes to this file, by its file system and, if
 * `grub-fstest` is installed, by GRUB's own reader. Returns the findings, or throws.
 */
export async function readWithGrub(path: string, deps: GrubReaderDeps, signal: AbortSignal): Promise<string> {
  const { file, mount } = await mountOf(path, deps);
  if (mount === undefined) return 'the file system is unknown';
  refuseUnfit(path, mount);
  if (!mount.source.startsWith('/dev/')) return mount.fileSystem;
  const cached = await bootFs.readFile(file); // refuses what is not a regular file, before it is opened
  const block = (await readFromMedium(file, BLOCK_BYTES, bootFs)) ?? cached;
  const asked = await compareWithGrub(path, block, deps, signal);
  if (asked) return `${mount.fileSystem}, as GRUB reads it`;
  return `${mount.fileSystem}; grub-fstest, which could tell more, is not installed`;
}

/**
 * Throws `boot-environment-misplaced` if GRUB reads other variables than this block contains. Returns false if GRUB
 * cannot be compared, since its tool is missing or the file is on no device.
 */
export async function compareWithGrub(
  path: string,
  block: Buffer,
  deps: GrubReaderDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const { file, mount } = await mountOf(path, deps);
  if (mount?.source.startsWith('/dev/') !== true) return false;
  const said = await askGrub(mount, file, deps.run, signal);
  if (said === undefined) return false;
  if (isDeepStrictEqual(said.variables, parseBlock(block))) return true;
  const why = said.variables === undefined ? `GRUB cannot read ${path}: ${said.error}` : `GRUB reads an older ${path}`;
  throw new BootloaderError('boot-environment-misplaced', `${why} (on ${mount.source}, ${mount.fileSystem})`, {
    advice: 'GRUB sees a new file after half a minute; if that does not help, create the boot partition again',
  });
}

/** The real path of a file, and the mount that holds it. */
export async function mountOf(
  path: string,
  { system = realSystem }: Pick<GrubReaderDeps, 'system'>,
): Promise<{ readonly file: string; readonly mount: Mount | undefined }> {
  const why = `cannot find ${path}`;
  const file = await onFile({ code: 'boot-environment-unreadable', why }, async () => realFs.realpath(path));
  return { file, mount: coveringMount(file, await readMounts(system)) };
}

export function refuseReadOnly(path: string, { mountPoint, options }: Mount): void {
  if (!options.includes('ro')) return;
  throw new BootloaderError('boot-environment-unwritable', `${path}: ${mountPoint} is mounted read-only`, {
    advice: `mount ${mountPoint} read-write`,
  });
}

function refuseUnfit(path: string, mount: Mount): void {
  const { fileSystem, mountPoint, options } = mount;
  if (!FIT.has(fileSystem)) {
    const why = `${path} is on ${fileSystem}, which GRUB cannot write, or reads otherwise than Linux`;
    throw new BootloaderError('boot-environment-misplaced', why);
  }
  refuseReadOnly(path, mount);
  if (options.includes('data=journal')) {
    const why = `${path}: ${mountPoint} is mounted with data=journal, and GRUB reads no journal`;
    throw new BootloaderError('boot-environment-misplaced', why, {
      advice: `mount ${mountPoint} without data=journal`,
    });
  }
}

interface Said {
  /** Omitted if GRUB finds no environment block. */
  readonly variables: ReturnType<typeof parseBlock>;
  readonly error: string;
}

/** Returns the variables that GRUB reads from the file, or undefined if that is not possible here. */
async function askGrub(mount: Mount, file: string, run: RunProgram, signal: AbortSignal): Promise<Said | undefined> {
  const inside = resolve(mount.root, relative(mount.mountPoint, file));
  // empties the cache of the device, which could hold older blocks
  await attempt(run, ['dd', `if=${mount.source}`, 'iflag=nocache', 'count=0', 'status=none'], signal);
  const ended = await attempt(run, ['grub-fstest', mount.source, 'cat', `(loop0)${inside}`], signal);
  if (ended === undefined) return undefined;
  const error = ended.stderr.trim().split('\n').at(-1) ?? '';
  return {
    variables: parseBlock(Buffer.from(ended.stdout, 'latin1')),
    error: error === '' ? 'no environment block' : error,
  };
}

async function attempt(
  run: RunProgram,
  command: ProgramCommand,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<RunProgram>> | undefined> {
  const ended = await valueOrError(run(command, LIMITS, signal));
  return ended instanceof AgentError ? undefined : ended;
}
