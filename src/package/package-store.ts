import * as realFs from 'node:fs/promises';
import { join } from 'node:path';

import * as z from 'zod';

import { systemErrorCode } from '../system/errors.ts';
import type { DurableFs } from '../system/files/durable-file.ts';
import { nodeFs, readTextFile, replaceFileDurably, StorageError, syncDirectory } from '../system/files/durable-file.ts';
import { digestIn, hashOf } from '../system/files/received-file.ts';
import { parsedJson } from '../system/json-value.ts';

/** Stands for a digest if the package was not installed. */
export const ABSENT = 'absent';

/** The functions of node:fs/promises that the folder of a package needs. */
export type PackageFs = DurableFs & Pick<typeof realFs, 'mkdir' | 'rm'> & { readdir(path: string): Promise<string[]> };

const packageFs: PackageFs = { ...nodeFs, readdir: realFs.readdir, rm: realFs.rm };

const standingSchema = z.object({ digest: z.string(), version: z.string() });

/** The package that an update installed last, and that was then found installed. */
export type InstalledRecord = z.infer<typeof standingSchema>;

/**
 * The directory of one package in the state directory, for root alone. It holds packages by their digest, the package
 * installed before each of them, and the requests to the installer.
 */
export class PackageStore {
  readonly directory: string;
  /** The file of a package that is being received. */
  readonly incomingPath: string;

  readonly fs: PackageFs;

  constructor(directory: string, fs: PackageFs = packageFs) {
    this.directory = directory;
    this.fs = fs;
    this.incomingPath = join(directory, 'incoming');
  }

  async make(): Promise<void> {
    try {
      await this.fs.mkdir(this.directory, { recursive: true, mode: 0o700 });
      await syncDirectory(join(this.directory, '..'), this.fs);
    } catch (error) {
      throw new StorageError('write', this.directory, error);
    }
  }

  pathOf(digest: string): string {
    return join(this.directory, `${hexOf(digest)}.deb`);
  }

  /**
   * Returns the digest of the first `sizeBytes` of a file, or of all of it, or undefined if the file does not exist.
   */
  async digestOf(path: string, sizeBytes = Infinity): Promise<string | undefined> {
    try {
      await using file = await this.fs.open(path, 'r');
      return digestIn((await hashOf(file, sizeBytes)).hash);
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT') return undefined;
      throw new StorageError('read', path, error);
    }
  }

  /** True if the package is stored and undamaged. */
  async holds(digest: string): Promise<boolean> {
    return (await this.digestOf(this.pathOf(digest))) === digest;
  }

  /**
   * Returns the digest of the package installed before this one, or `absent`, or undefined if this package was never
   * installed.
   */
  async before(digest: string): Promise<string | undefined> {
    return (await readTextFile(this.#beforePath(digest), this.fs))?.trim();
  }

  async rememberBefore(digest: string, before: string): Promise<void> {
    await replaceFileDurably(this.#beforePath(digest), `${before}\n`, this.fs);
  }

  async readInstalled(): Promise<InstalledRecord | undefined> {
    const text = await readTextFile(this.#standingPath, this.fs);
    return text === undefined ? undefined : standingSchema.safeParse(parsedJson(text)).data;
  }

  /** Omit the record if none of the stored packages is still installed. */
  async recordInstalled(standing: InstalledRecord | undefined): Promise<void> {
    await replaceFileDurably(this.#standingPath, JSON.stringify(standing ?? null), this.fs);
  }

  /** Removes packages that no rollback needs. */
  async prune(wanted: string): Promise<void> {
    const standing = (await this.readInstalled())?.digest;
    const used = new Set<string>();
    for (const digest of [wanted, standing]) {
      if (digest === undefined) continue;
      used.add(digest).add((await this.before(digest)) ?? digest);
    }
    const isUseless = (name: string): boolean => {
      const [, hex = '', kind] = /^([0-9a-f]{64})\.(deb|before)$/.exec(name) ?? [];
      return kind !== undefined && !used.has(`sha256:${hex}`);
    };
    for (const name of (await this.fs.readdir(this.directory)).filter(isUseless))
      await this.fs.rm(join(this.directory, name));
  }

  #beforePath(digest: string): string {
    return join(this.directory, `${hexOf(digest)}.before`);
  }

  get #standingPath(): string {
    return join(this.directory, 'standing.json');
  }
}

/**
 * Returns the version of each package that an update or rollback installed last, by the name of its target. Another
 * installed version was installed manually. Packages that no update has installed are left out.
 */
export async function versionsFromUpdates(
  names: readonly string[],
  directoryOf: (name: string) => string,
  fs?: PackageFs,
): Promise<Readonly<Record<string, string>>> {
  const left: Record<string, string> = {};
  for (const name of names) {
    const standing = await new PackageStore(directoryOf(name), fs).readInstalled();
    if (standing !== undefined) left[name] = standing.version;
  }
  return left;
}

export function hexOf(digest: string): string {
  return digest.replace(/^sha256:/, '');
}
