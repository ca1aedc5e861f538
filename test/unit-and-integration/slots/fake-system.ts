import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import type { KernelPaths } from '../../../src/slots/device-identity.ts';

/** A temporary directory with files that may stand for slots, and with a /proc and a /sys as a test wants them. */
export class FakeSystem implements AsyncDisposable {
  readonly folder: string;
  readonly view: KernelPaths;

  private constructor(folder: string) {
    this.folder = folder;
    this.view = { proc: join(folder, 'proc'), sys: join(folder, 'sys') };
  }

  static async make(...mounts: readonly string[]): Promise<FakeSystem> {
    const system = new FakeSystem(await mkdtemp(join(tmpdir(), 'slots-')));
    await system.mount(...mounts);
    return system;
  }

  /** Sets the content of /proc/self/mountinfo. */
  async mount(...mounts: readonly string[]): Promise<void> {
    await this.#write('proc/self/mountinfo', `${mounts.join('\n')}\n`);
  }

  /** The kernel's name for the process namespace, as a link. */
  async processNamespace(name: string): Promise<void> {
    await mkdir(join(this.view.proc, 'self/ns'), { recursive: true });
    await symlink(name, join(this.view.proc, 'self/ns/pid'));
  }

  async swapTo(...paths: readonly string[]): Promise<void> {
    const lines = paths.map((path) => `${path.replaceAll(' ', '\\040')} file 1048572 0 -2`);
    await this.#write('proc/swaps', ['Filename Type Size Used Priority', ...lines, ''].join('\n'));
  }

  /** A loop device that shows a file. */
  async loop(device: string, backingFile: string): Promise<void> {
    await this.#write(`sys/dev/block/${device}/loop/backing_file`, `${backingFile}\n`);
  }

  /** A device on top of others, as in device mapper. */
  async stack(device: string, ...below: readonly string[]): Promise<void> {
    for (const [index, each] of below.entries()) {
      await this.#write(`sys/dev/block/${device}/slaves/disk${index}/dev`, `${each}\n`);
      await this.#write(`sys/dev/block/${each}/holders/dm-${index}/dev`, `${device}\n`);
    }
  }

  async file(name: string, content: string | Uint8Array = name): Promise<string> {
    return this.#write(name, content);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  async #write(name: string, content: string | Uint8Array): Promise<string> {
    const path = join(this.folder, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
    return path;
  }
}
