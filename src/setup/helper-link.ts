import { rm, stat, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { DROP_IN, findMixture, LINK } from '../config/check/two-processes.ts';
import { valueOrUndefined } from '../system/errors.ts';
import { StorageError } from '../system/files/durable-file.ts';
import { ImageFiles } from '../system/files/image-files.ts';
import { makeFolder } from '../system/files/make-folder.ts';

/**
 * Makes the link to two processes for a configuration that names a helper, if it is what lacks on this gateway. Returns
 * what takes it away again; undefined: nothing was to be made. Throws StorageError.
 */
export async function linkHelper(helper: string, root = '/'): Promise<(() => Promise<void>) | undefined> {
  const lacks = (await findMixture(helper, new ImageFiles(root))) !== undefined;
  if (!lacks || !(await isThere(join(root, DROP_IN)))) return undefined;
  const link = join(root, LINK);
  try {
    await makeFolder(dirname(link), 0o755);
    await symlink(DROP_IN, link);
  } catch (error) {
    throw new StorageError('make', link, error);
  }
  return async () => rm(link, { force: true });
}

async function isThere(path: string): Promise<boolean> {
  return (await valueOrUndefined(stat(path))) !== undefined;
}
