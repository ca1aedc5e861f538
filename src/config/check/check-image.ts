import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';

import { systemErrorCode, valueOrUndefined } from '../../system/errors.ts';
import { ImageFiles } from '../../system/files/image-files.ts';
import { describeExposures } from '../../system/files/protected-file.ts';
import { readUntrustedFile } from '../../system/files/untrusted-file.ts';
import type { Finding } from '../cross-check.ts';
import { ConfigError } from '../errors.ts';
import { keyPath } from '../file/problems.ts';
import { DEFAULT_CONFIG_PATH } from '../read-config.ts';
import { findFileProblem, guarded, MISSING, secrets } from './referenced-file.ts';
import { referencesOf, referencedUsers } from './references.ts';
import type { RequiredFileKind, Reference } from './references.ts';
import type { ValidSubset } from './valid-subset.ts';

/** A finding on a build machine. `doubtful`: the file is missing in the image, but a gateway may have it elsewhere. */
export interface ImageFindings {
  readonly wrong: readonly Finding[];
  readonly doubtful: readonly Finding[];
}

/** Paths that are not in the image: other partitions, and files of the running kernel. */
const OF_THE_GATEWAY = /^\/(boot|data|dev|mnt|proc|run|srv|sys|var)(\/|$)/;
const MAX_PASSWD_BYTES = 1024 * 1024;

/** Files that each gateway may get for itself, and programs that may come with an application. */
const mayComeLater: ReadonlySet<RequiredFileKind> = new Set([...secrets, 'certificates', 'own program', 'program']);

/**
 * Returns the path of the configuration of an image, unless another one was named. Throws `config-unreadable` if there
 * is no image.
 */
export async function pathInImage(root: string, path: string): Promise<string> {
  if (!(await isFolder(root)))
    throw new ConfigError('config-unreadable', root, [
      { line: undefined, message: 'it is not a folder with an image' },
    ]);
  return path === DEFAULT_CONFIG_PATH ? new ImageFiles(root).locate(path) : path;
}

/** Checks what a configuration names in the image to which it belongs. Devices are not looked for. */
export async function findInImage({ tables, placeOf }: ValidSubset, root: string): Promise<ImageFindings> {
  const image = new ImageFiles(root);
  const wrong: Finding[] = [];
  const doubtful: Finding[] = [];
  for (const reference of referencesOf(tables)) {
    const path = placeOf(reference.path);
    const why = path === undefined ? undefined : await examine(reference, image);
    if (path === undefined || why === undefined) continue;
    const isDoubt = why === MISSING && mayComeLater.has(reference.need);
    const said = why === MISSING ? 'is not in the image' : why;
    (isDoubt ? doubtful : wrong).push({ path, message: `${keyPath(path)}: ${reference.file} ${said}` });
  }
  const known = await usersIn(image);
  for (const { path: at, user } of referencedUsers(tables)) {
    const path = placeOf(at);
    if (path === undefined || /^\d+$/.test(user) || known.has(user)) continue;
    doubtful.push({ path, message: `${keyPath(path)}: the image has no user ${user}` });
  }
  return { wrong, doubtful };
}

async function examine({ file, need }: Reference, image: ImageFiles): Promise<string | undefined> {
  if (need === 'slot' || need === 'device' || !isAbsolute(file) || OF_THE_GATEWAY.test(file)) return undefined;
  if (guarded.has(need) || need === 'handler' || need === 'own program') {
    const exposures = await image.exposuresOf(file);
    if (exposures.length > 0) return `is not trusted: ${describeExposures(exposures)}`;
  }
  return findFileProblem(file, need, async (path) => image.locate(path));
}

async function isFolder(path: string): Promise<boolean> {
  return (await valueOrUndefined(stat(path)))?.isDirectory() ?? false;
}

async function usersIn(image: ImageFiles): Promise<ReadonlySet<string>> {
  try {
    const bytes = await readUntrustedFile(await image.locate('/etc/passwd'), { maxBytes: MAX_PASSWD_BYTES });
    return new Set(
      bytes
        .toString('utf8')
        .split('\n')
        .map((line) => line.split(':', 1)[0] ?? ''),
    );
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return new Set();
  }
}
