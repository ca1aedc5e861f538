import { lstat, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { valueOrUndefined } from '../errors.ts';
import { findExposures, partsOf } from './protected-file.ts';
import type { Exposure, StatFs } from './protected-file.ts';

const MAX_LINKS = 40;

/**
 * The files of a root file system in a folder, for example an image that is being built. No link leads out of the
 * folder.
 */
export class ImageFiles {
  readonly root: string;
  readonly #files: StatFs;

  constructor(root: string) {
    this.root = root;
    this.#files = {
      lstat: async (path) => lstat(join(root, path)),
      readlink: async (path) => readlink(join(root, path)),
    };
  }

  /**
   * Resolves a path of the image on this machine; a path that does not exist is resolved, too. Throws ELOOP, as the
   * system does.
   */
  async locate(path: string): Promise<string> {
    const left = partsOf(path);
    let folder = '/';
    for (let links = 0; links <= MAX_LINKS;) {
      const part = left.shift();
      if (part === undefined) return join(this.root, folder);
      const place = join(folder, part);
      const target = await valueOrUndefined(readlink(join(this.root, place)));
      if (target === undefined) folder = place;
      else {
        links += 1;
        if (target.startsWith('/')) folder = '/';
        left.unshift(...partsOf(target));
      }
    }
    throw Object.assign(new Error(`more than ${MAX_LINKS} symbolic links`), { code: 'ELOOP' });
  }

  /** Like `findExposures`, for the image. The builder of its root counts as its owner. */
  async exposuresOf(path: string): Promise<readonly Exposure[]> {
    return findExposures(path, this.#files, (await stat(this.root)).uid);
  }
}
