import { constants } from 'node:fs';
import type { Stats } from 'node:fs';
import * as realFs from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { valueOrUndefined } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { readUntrustedFile } from './untrusted-file.ts';
import type { UntrustedFileOptions } from './untrusted-file.ts';

/** The functions of node:fs/promises that looking needs; memfs has them, too. */
export interface StatFs {
  lstat(path: string): Promise<Stats>;
  readlink(path: string): Promise<string>;
}

/** A place that users other than root and the user of this process can change. */
export interface Exposure {
  /** The file itself, or a folder or link on the way to it. */
  readonly path: string;
  readonly why: string;
  /** The command that fixes it. */
  readonly fix: string;
}

const ROOT = 0;
const GROUP_MAY_WRITE = 0o020;
const ALL_MAY_WRITE = 0o002;
const ALL_MAY_READ = 0o004;
const ALL_MAY_ENTER = 0o001;
const STICKY = 0o1000;
const PERMISSIONS = 0o7777;
const MAX_LINKS = 40;
const MAX_ENTRIES = 1_000;

/**
 * Guarantee `guarded-files`: finds the ways in which others can change a file or replace it. The file and each directory
 * from `/` on, through symbolic links, must belong to root or to the agent's user, and no one else may write there. In
 * a sticky directory such as `/tmp`, others can neither rename nor remove files they do not own. The search ends at a
 * path that is missing or may not be searched; reading the file reports that.
 */
export async function findExposures(
  path: string,
  fs: StatFs = realFs,
  ourUid = process.getuid?.() ?? ROOT,
): Promise<readonly Exposure[]> {
  const found = new Map<string, Exposure>();
  // as the kernel does: ".." leads out of the folder that a link before it leads to
  const named = path.startsWith('/') ? path : `${process.cwd()}/${path}`;
  const left = ['', ...partsOf(named)];
  let folder = { path: '/', isSticky: false };
  for (let links = 0; links <= MAX_LINKS;) {
    const part = left.shift();
    if (part === undefined) break;
    const place = join(folder.path, part);
    const facts = await statOf(place, fs);
    if (facts === undefined) break;
    const exposure = exposureOf(place, facts, ourUid, folder.isSticky);
    if (exposure !== undefined) found.set(place, await withMend(exposure, facts, named, fs));
    if (facts.isSymbolicLink()) {
      links += 1;
      const target = await fs.readlink(place);
      if (target.startsWith('/')) folder = { path: '/', isSticky: false };
      left.unshift(...partsOf(target));
    } else {
      folder = { path: place, isSticky: isSticky(facts) };
    }
  }
  return [...found.values()];
}

/** Finds the ways in which others can change a directory or its content. */
async function findExposuresIn(folder: string): Promise<readonly Exposure[]> {
  const found = new Map<string, Exposure>();
  for (const path of [folder, ...(await entriesOf(folder))]) {
    for (const exposure of await findExposures(path)) found.set(exposure.path, exposure);
  }
  return [...found.values()];
}

async function entriesOf(folder: string): Promise<readonly string[]> {
  const names = (await valueOrUndefined(realFs.readdir(folder))) ?? [];
  return names.slice(0, MAX_ENTRIES).map((name) => join(folder, name));
}

/** The names in a path from `/` on. */
export function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

async function statOf(place: string, fs: StatFs): Promise<Stats | undefined> {
  return valueOrUndefined(fs.lstat(place));
}

/** Adds the fix for an exposure. A device must keep its rights, so the link to it or the path has to change. */
async function withMend(exposure: Exposure, facts: Stats, named: string, fs: StatFs): Promise<Exposure> {
  if (!isDevice(facts)) return exposure;
  const isLink = (await statOf(named, fs))?.isSymbolicLink() ?? false;
  return { ...exposure, fix: isLink ? `rm ${quoted(named)}` : 'another path that is not a device' };
}

function isDevice(facts: Stats): boolean {
  return facts.isCharacterDevice() || facts.isBlockDevice();
}

function isSticky(facts: Stats): boolean {
  return facts.isDirectory() && (facts.mode & STICKY) !== 0;
}

function exposureOf(path: string, facts: Stats, ourUid: number, inSticky: boolean): Exposure | undefined {
  const isLink = facts.isSymbolicLink();
  const isTheirs = facts.uid !== ROOT && facts.uid !== ourUid;
  if (isLink && !inSticky) return undefined;
  if (isTheirs) {
    const change = isLink ? 'chown -h' : 'chown';
    return { path, why: `belongs to user ${facts.uid}`, fix: `${change} root: ${quoted(path)}` };
  }
  if (isLink || isSticky(facts)) return undefined;
  const who = writers(facts.mode, facts.gid);
  return who === undefined ? undefined : { path, why: `can be changed by ${who}`, fix: `chmod go-w ${quoted(path)}` };
}

function writers(mode: number, gid: number): string | undefined {
  if ((mode & ALL_MAY_WRITE) !== 0) return 'anyone';
  return (mode & GROUP_MAY_WRITE) === 0 ? undefined : `group ${gid}`;
}

/** Quotes a path for a shell. */
export function quoted(path: string): string {
  return /^[\w./@:+-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

/** Describes the problem and its fix: `chmod go-w /etc/thing-agent && chown root: …`. */
export function describeExposures(exposures: readonly Exposure[]): string {
  const reasons = exposures.map(({ path, why }) => `${path} ${why}`).join(', ');
  return `${reasons}; fix it with: ${exposures.map(({ fix }) => fix).join(' && ')}`;
}

/**
 * Throws `writable-by-others`. If only root and the agent's user may write, no one can change anything between this
 * check and the use.
 */
export async function refuseExposed(path: string, fs?: StatFs): Promise<void> {
  refuse(path, await findExposures(path, fs));
}

/** Throws `writable-by-others` for a directory or its content. */
export async function refuseExposedFolder(path: string): Promise<void> {
  refuse(path, await findExposuresIn(path));
}

function refuse(path: string, exposures: readonly Exposure[]): void {
  if (exposures.length === 0) return;
  throw new SystemError('writable-by-others', `${path} is not trusted: ${describeExposures(exposures)}`);
}

/**
 * True if every user of this machine may read the file, and search each directory on the way to it. Throws the system's
 * error.
 */
export async function mayBeReadByAll(path: string): Promise<boolean> {
  let place = await realFs.realpath(path);
  let needed = ALL_MAY_READ;
  for (;;) {
    if (((await realFs.stat(place)).mode & needed) === 0) return false;
    if (place === '/') return true;
    place = dirname(place);
    needed = ALL_MAY_ENTER;
  }
}

/** Removes the right of others to write in a folder of root or ours. Returns whether they had it. */
export async function closeFolder(path: string): Promise<boolean> {
  await using folder = await realFs.open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  const { mode, uid } = await folder.stat();
  if ((mode & (GROUP_MAY_WRITE | ALL_MAY_WRITE)) === 0 || (uid !== ROOT && uid !== process.getuid?.())) return false;
  await folder.chmod(mode & PERMISSIONS & ~(GROUP_MAY_WRITE | ALL_MAY_WRITE));
  return true;
}

/**
 * Like `readOutsideFile`, for a file on whose content the safety of the gateway depends: a key, a password, a
 * configuration.
 */
export async function readProtectedFile(
  path: string,
  options: UntrustedFileOptions,
  signal?: AbortSignal,
): Promise<Buffer> {
  await refuseExposed(path);
  return readUntrustedFile(path, options, signal);
}
