import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { InstallerClient } from '../../../src/package/installer-client.ts';
import type { ProgramResult, runProgram } from '../../../src/system/processes/child-process.ts';

/** A package as the fake reads it: fields in its first line. */
export function deb(version: string, { name = 'app', architecture = 'amd64' } = {}): Buffer {
  return Buffer.from(`Package: ${name}\nArchitecture: ${architecture}\nVersion: ${version}\ncontent of ${version}\n`);
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

/** A system with one package: dpkg, and a package installer that replaces it immediately. */
export class FakeDpkg {
  /** The complete installed package, if any. */
  installed: Buffer | undefined;
  /** Digests that dpkg does not take. */
  readonly refused = new Set<string>();
  /** The installed package cannot be packed again. */
  unkeepable = false;
  /** Completed replacements, one line each: `1.0 → 1.1`. */
  readonly exchanges: string[] = [];
  /** Another program has the lock of dpkg: neither package can be installed. */
  isLocked = false;
  /** The guard is just ending an earlier update, and takes what it finds with that. */
  isLeaving = false;
  /** Called where the package's scripts would restart the agent. */
  onInstalled: () => void = () => {};

  constructor(installed: Buffer | undefined) {
    this.installed = installed;
  }

  get version(): string | undefined {
    return this.installed && versionOf(this.installed);
  }

  readonly run: typeof runProgram = async (command, _options, signal) => {
    signal.throwIfAborted();
    const [program, ...args] = command;
    const last = args.at(-1) ?? '';
    switch (program) {
      case 'sh':
        return controlOf(await readFile(last), last);
      case 'dpkg':
        return ended(0, 'amd64\n');
      case 'dpkg-query':
        return this.version === undefined ? ended(1) : ended(0, `installed ${this.version}`);
      default:
        throw new Error(`nobody fakes ${program}`);
    }
  };

  readonly ask: InstallerClient = async (question, _timeoutMs, signal) => {
    signal.throwIfAborted();
    const [action, , directory = ''] = question.split(' ');
    await (action === 'keep' ? this.#keep(directory) : this.#watch(directory));
  };

  async #keep(directory: string): Promise<void> {
    if (this.unkeepable) {
      await writeFile(join(directory, 'kept'), '- its files are diverted\n');
      return;
    }
    if (this.installed === undefined) {
      await writeFile(join(directory, 'kept'), 'absent -\n');
      return;
    }
    const again = Buffer.concat([this.installed, Buffer.from('packed again\n')]);
    const hex = digestOf(again).slice('sha256:'.length);
    await writeFile(join(directory, `${hex}.deb`), again);
    await writeFile(join(directory, 'kept'), `${hex} ${this.version}\n`);
  }

  async #watch(directory: string): Promise<void> {
    const request = join(directory, 'request');
    if (this.isLeaving) {
      this.isLeaving = false;
      await rm(request);
      return;
    }
    const text = existsSync(request) ? await readFile(request, 'utf8') : '';
    const field = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? '';
    const result = join(directory, 'result');
    const told = existsSync(result) ? await readFile(result, 'utf8') : '';
    if (text === '' || told.startsWith(field('id'))) return;
    if (this.isLocked) {
      await writeFile(result, `${field('id')} broken dpkg is locked\n`);
      return;
    }
    const put = async (hex: string): Promise<void> => {
      const from = this.version ?? 'nothing';
      this.installed = hex === 'absent' ? undefined : await readFile(join(directory, `${hex}.deb`));
      this.exchanges.push(`${from} → ${this.version ?? 'nothing'}`);
    };
    const isRefused = this.refused.has(`sha256:${field('want')}`);
    await put(isRefused ? field('otherwise') : field('want'));
    await writeFile(`${result}.new`, `${field('id')} ${isRefused ? 'refused its script ended with 3' : 'installed'}\n`);
    await rename(`${result}.new`, result);
    this.onInstalled();
  }
}

function versionOf(bytes: Buffer): string | undefined {
  return /^Version: (\S+)/m.exec(bytes.toString())?.[1];
}

function controlOf(bytes: Buffer, path: string): ProgramResult {
  const text = bytes.toString();
  return text.startsWith('Package: ')
    ? ended(0, text)
    : ended(2, '', `dpkg-deb: error: '${path}' is not a Debian format archive\n`);
}

function ended(exitCode: number, stdout = '', stderr = ''): ProgramResult {
  return { exitCode, stdout, stderr };
}

/** The result of a replacement that the package installer undid, because it was never committed. */
export async function putBackByGuard(directory: string, dpkg: FakeDpkg): Promise<void> {
  const text = await readFile(join(directory, 'request'), 'utf8');
  const field = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? '';
  await copyFile(join(directory, `${field('otherwise')}.deb`), join(directory, 'again'));
  dpkg.installed = await readFile(join(directory, 'again'));
  await writeFile(join(directory, 'result'), `${field('id')} put-back no agent has checked its health\n`);
}
