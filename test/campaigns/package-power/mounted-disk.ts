import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { tool } from '../../stand-ins/machine/tool.ts';

/** Enough for Debian, and for a package that is there twice. */
const SIZE = '1G';

/** An empty disk with one file system. */
export async function makeDisk(path: string): Promise<void> {
  await tool(['truncate', '-s', SIZE, path]);
  await tool(['mkfs.ext4', '-q', path]);
}

/** A disk in a file, mounted on this machine, until it is disposed; its file system's journal is played first. */
export class MountedDisk implements AsyncDisposable {
  readonly root: string;
  readonly #device: string;

  private constructor(root: string, device: string) {
    this.root = root;
    this.#device = device;
  }

  static async of(path: string): Promise<MountedDisk> {
    const device = await tool(['losetup', '--find', '--show', path]);
    const root = await mkdtemp(join(tmpdir(), 'mounted-disk-'));
    const disk = new MountedDisk(root, device);
    try {
      await tool(['mount', '-t', 'ext4', '-o', 'noatime', device, root]);
    } catch (error) {
      await disk.#leave();
      throw error;
    }
    return disk;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await tool(['umount', this.root]);
    await this.#leave();
  }

  async #leave(): Promise<void> {
    await tool(['losetup', '--detach', this.#device]);
    await rm(this.root, { recursive: true });
  }
}
