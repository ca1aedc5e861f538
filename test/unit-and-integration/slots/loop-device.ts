import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { runProgram } from '../../../src/system/processes/child-process.ts';
import { never } from './writer-bench.ts';

const attempts = 20;

export interface LoopOptions {
  readonly readOnly?: boolean;
  /** The loop device itself goes past the page cache of its backing file. */
  readonly directIo?: boolean;
}

/** Runs a program of the system that must succeed; returns what it printed. */
export async function run(...command: readonly [string, ...string[]]): Promise<string> {
  const { exitCode, stdout, stderr } = await runProgram(command, { timeoutMs: 30_000 }, never);
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit ${exitCode}: ${stderr.trim()}`);
  return stdout.trim();
}

/** A block device over a sparse file, for root only; detached and removed by `await using`. */
export class LoopDevice implements AsyncDisposable {
  readonly path: string;
  readonly backingFile: string;
  readonly #folder: string;

  private constructor(path: string, backingFile: string, folder: string) {
    this.path = path;
    this.backingFile = backingFile;
    this.#folder = folder;
  }

  static async attach(sizeBytes: number, options: LoopOptions = {}): Promise<LoopDevice> {
    const folder = await mkdtemp(join(tmpdir(), 'loop-'));
    const backingFile = join(folder, 'disk.img');
    await using file = await open(backingFile, 'w');
    await file.truncate(sizeBytes);
    try {
      return new LoopDevice(await attachLoop(backingFile, options), backingFile, folder);
    } catch (error) {
      await rm(folder, { recursive: true });
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run('losetup', '--detach', this.path);
    await rm(this.#folder, { recursive: true });
  }
}

/** Returns the device. Another process may take the first free number between the search and its use. */
export async function attachLoop(backingFile: string, options: LoopOptions = {}): Promise<string> {
  const flags = [
    ...(options.readOnly === true ? ['--read-only'] : []),
    `--direct-io=${options.directIo === true ? 'on' : 'off'}`,
  ];
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run('losetup', '--find', '--show', ...flags, backingFile);
    } catch (error) {
      if (attempt >= attempts) throw error;
    }
  }
}

/** A file system mounted on a temporary directory, until it is disposed. */
export class TemporaryMount implements AsyncDisposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** The arguments of mount(8) before the directory. */
  static async mount(...mountArguments: readonly string[]): Promise<TemporaryMount> {
    const folder = await mkdtemp(join(tmpdir(), 'mount-'));
    await run('mount', ...mountArguments, folder);
    return new TemporaryMount(folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run('umount', this.folder);
    await rm(this.folder, { recursive: true });
  }
}
