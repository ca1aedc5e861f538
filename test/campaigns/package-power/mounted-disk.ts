import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { tool } from '../../fakes/machine/tool.ts';
import { SECTOR } from '../boots/disk/write-log.ts';

/** Enough for Debian, and for a package that is there twice. */
const SIZE = '1G';

/** An empty disk with one file system. */
export async function makeFileSystem(path: string): Promise<void> {
  await tool(['truncate', '-s', SIZE, path]);
  await tool(['mkfs.ext4', '-q', path]);
}

/** Holes stay holes. */
export async function copyDisk(from: string, to: string): Promise<void> {
  await tool(['cp', '--sparse=always', from, to]);
}

/** A disk in a file, mounted on this machine, until it is disposed; its file system's journal is played first. */
export class MountedDisk implements AsyncDisposable {
  readonly root: string;
  readonly #device: string;

  private constructor(root: string, device: string) {
    this.root = root;
    this.#device = device;
  }

  /** The whole disk, or the partition that begins at this sector. */
  static async of(path: string, sector = 0): Promise<MountedDisk> {
    const device = await tool(['losetup', '--find', '--show', '--offset', String(sector * SECTOR), path]);
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
