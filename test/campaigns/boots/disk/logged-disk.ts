import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A disk in a file, under another path: every write and flush that goes through that is noted (QEMU's blklogwrites, by FUSE). */
export class LoggedDisk implements AsyncDisposable {
  readonly path: string;
  readonly #folder: string;
  readonly #daemon: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(folder: string, daemon: ChildProcess) {
    this.path = join(folder, 'disk');
    this.#folder = folder;
    this.#daemon = daemon;
    this.#ended = once(daemon, 'close');
  }

  static async open(disk: string, log: string): Promise<LoggedDisk> {
    const folder = await mkdtemp(join(tmpdir(), 'logged-disk-'));
    await writeFile(join(folder, 'disk'), '');
    const given = daemonArguments(disk, log, join(folder, 'disk'));
    const daemon = spawn('setpriv', ['--pdeathsig', 'KILL', 'qemu-storage-daemon', ...given], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const opened = new LoggedDisk(folder, daemon);
    // Its monitor greets when everything named before is there.
    const greeted = await Promise.race([once(daemon.stdout, 'data'), opened.#ended.then(() => undefined)]);
    if (greeted !== undefined) return opened;
    await rm(folder, { recursive: true });
    throw new Error(`qemu-storage-daemon does not show ${disk}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#daemon.kill('SIGTERM');
    await this.#ended;
    await rm(this.#folder, { recursive: true });
  }
}

function daemonArguments(disk: string, log: string, path: string): readonly string[] {
  const node = (value: object): string[] => ['--blockdev', JSON.stringify(value)];
  const shown = { type: 'fuse', id: 'shown', 'node-name': 'logged', mountpoint: path, writable: true };
  return [
    ...node({ driver: 'file', filename: disk, 'node-name': 'disk', cache: { direct: false, 'no-flush': true } }),
    ...node({ driver: 'file', filename: log, 'node-name': 'log', cache: { 'no-flush': true } }),
    ...node({ driver: 'blklogwrites', file: 'disk', log: 'log', 'log-sector-size': 512, 'node-name': 'logged' }),
    '--export',
    JSON.stringify({ ...shown, 'allow-other': 'off' }),
    '--chardev',
    'stdio,id=monitor',
    '--monitor',
    'chardev=monitor',
  ];
}
