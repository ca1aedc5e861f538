import * as realFs from 'node:fs/promises';

import type { DurableFs } from '../../system/files/durable-file.ts';
import { OutsideFileError, readToBound } from '../../system/files/outside-file.ts';
import type { ReadFs } from './booted-slot.ts';
import { BootloaderError } from './errors.ts';

export type BootFs = DurableFs & ReadFs;

/** Many times what any boot environment, its settings or a kernel command line has. */
const MAX_BYTES = 1024 * 1024;

/** Of files that the configuration names: a pipe or a device in the place of one is not waited for, nor read without an end. */
export const bootFs: BootFs = {
  open: realFs.open,
  rename: realFs.rename,
  realpath: async (path) => realFs.realpath(path),
  readFile: async (path) => {
    try {
      return await readToBound(path, { maxBytes: MAX_BYTES });
    } catch (error) {
      if (!(error instanceof OutsideFileError)) throw error;
      throw new BootloaderError('boot-environment-unreadable', error.message, { cause: error });
    }
  },
};
