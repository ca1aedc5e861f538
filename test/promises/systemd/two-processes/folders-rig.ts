import { spawnSync } from 'node:child_process';
import type { SpawnSyncReturns } from 'node:child_process';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { newDirectory, systemdDirectory } from '../installed-root.ts';

/** In the place of the agent's user. */
export const NOBODY = 65_534;
export const small = ['history.json', 'identity.json', 'security.json'];
export const spool = ['spool.db', 'spool.db-wal'];

/** A state directory of one process, for systemd/own-folders. */
export class FoldersRig implements AsyncDisposable {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async create(): Promise<FoldersRig> {
    const rig = new FoldersRig(await newDirectory());
    await mkdir(rig.state, { mode: 0o700 });
    await write(rig.state, [...small, ...spool, 'journal.json'], 'one');
    return rig;
  }

  get state(): string {
    return join(this.#folder, 'state');
  }

  /** The agent's folder in it. */
  get own(): string {
    return join(this.state, 'agent');
  }

  /** Runs it with the programs of a folder in front of the machine's own. */
  runAs(
    user: 'root' | 'nobody',
    programs?: string,
    run = join(this.state, 'none'),
    more: Readonly<Record<string, string>> = {},
  ): SpawnSyncReturns<string> {
    const path = process.env['PATH'] ?? '';
    const folders = programs === undefined ? path : `${programs}:${path}`;
    const env = { PATH: folders, STATE_DIRECTORY: this.state, RUNTIME_DIRECTORY: run, ...more };
    return spawnSync(join(systemdDirectory, 'own-folders'), [user], { env, encoding: 'utf8' });
  }

  /** Resolves with what it said. */
  ownFolders(user: 'root' | 'nobody', programs?: string): string {
    const { status, stdout, stderr } = this.runAs(user, programs);
    if (status !== 0 || stderr !== '') throw new Error(`own-folders ended with ${status}: ${stderr}`);
    return stdout;
  }

  /** A folder with a program that does this before the machine's own. */
  async pretend(name: string, body: string): Promise<string> {
    const folder = join(this.#folder, 'bin');
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder);
    await writeFile(this.moves, '');
    const rest = `echo "$*" >>'${this.moves}'; PATH=\${PATH#*:} exec ${name} "$@"`;
    await writeFile(join(folder, name), `#!/bin/sh\n${body}\n${rest}\n`, { mode: 0o755 });
    return folder;
  }

  /** How often that program was called, a line each. */
  get moves(): string {
    return join(this.#folder, 'moves');
  }

  /** Programs that know nothing of a group which this machine has not. */
  async withoutGroup(folder = join(this.#folder, 'bin')): Promise<string> {
    await mkdir(folder, { recursive: true });
    const chown = `#!/bin/sh\nPATH=\${PATH#*:}\nexec chown $(echo "$*" | sed s/:thing-operators/:/)\n`;
    await writeFile(join(folder, 'chown'), chown, { mode: 0o755 });
    return folder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }
}

export async function write(folder: string, names: readonly string[], text: string): Promise<void> {
  for (const name of names) await writeFile(join(folder, name), `${name} of ${text}`, { mode: 0o600 });
}

/** Who owns what there, and with which mode. */
export async function facts(folder: string): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const name of ['.', ...(await readdir(folder))]) {
    const { uid, mode } = await stat(join(folder, name));
    found[name] = `${uid} ${(mode & 0o777).toString(8)}`;
  }
  return found;
}
