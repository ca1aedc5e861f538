import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';

import { systemErrorCode, valueOrUndefined } from '../../system/errors.ts';
import { ImageFiles } from '../../system/files/image-files.ts';
import { describeExposures } from '../../system/files/protected-file.ts';
import { readUntrustedFile } from '../../system/files/untrusted-file.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import { ConfigError } from '../errors.ts';
import { DEFAULT_CONFIG_PATH } from '../read-config.ts';
import { findFileProblem, guarded, MISSING, secrets } from './referenced-file.ts';
import { checkReferences } from './references.ts';
import type { CheckedReferences } from './references.ts';
import type { ValidSubset } from './valid-subset.ts';

/** Paths that are not in the image: other partitions, and files of the running kernel. */
const OF_THE_GATEWAY = /^\/(boot|data|dev|mnt|proc|run|srv|sys|var)(\/|$)/;
const MAX_PASSWD_BYTES = 1024 * 1024;

/** Files that each gateway may get for itself, and programs that may come with an application. */
const mayComeLater: ReadonlySet<RequiredFileKind | 'user'> = new Set([
  ...secrets,
  'certificates',
  'own program',
  'program',
]);

/**
 * Returns the path of the configuration of an image, unless another one was named. Throws `config-unreadable` if there
 * is no image.
 */
export async function pathInImage(root: string, path: string): Promise<string> {
  if (!(await isFolder(root)))
    throw new ConfigError('config-unreadable', root, [
      { line: undefined, message: 'it is not a directory with an image' },
    ]);
  return path === DEFAULT_CONFIG_PATH ? new ImageFiles(root).locate(path) : path;
}

/** Checks what a configuration names in the image to which it belongs. Devices are not looked for. */
export async function findInImage(right: ValidSubset, root: string): Promise<CheckedReferences> {
  const image = new ImageFiles(root);
  const users = await usersIn(image);
  return checkReferences(right, async ({ name, need }) => {
    if (need === 'user') {
      const isKnown = /^\d+$/.test(name) || users.has(name);
      return isKnown ? undefined : { why: `the image has no user ${name}`, isDoubtful: true };
    }
    const why = await examine(name, need, image);
    if (why === MISSING) return { why: `${name} is not in the image`, isDoubtful: mayComeLater.has(need) };
    return why === undefined ? undefined : { why: `${name} ${why}`, isDoubtful: false };
  });
}

async function examine(file: string, need: RequiredFileKind, image: ImageFiles): Promise<string | undefined> {
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
