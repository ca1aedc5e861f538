import * as realFs from 'node:fs/promises';

import { mapError } from '../../system/errors.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { OutsideFileError, readToBound } from '../../system/files/untrusted-file.ts';
import type { ReadFs } from './booted-slot.ts';
import { BootloaderError } from './errors.ts';

export type BootFs = DurableFs & ReadFs;

/** Many times the size of any boot environment, its settings or a kernel command line. */
const MAX_BYTES = 1024 * 1024;

/**
 * File access for files that the configuration names. A pipe or device at such a path is neither waited for nor read
 * endlessly.
 */
export const bootFs: BootFs = {
  open: realFs.open,
  rename: realFs.rename,
  realpath: async (path) => realFs.realpath(path),
  readFile: async (path) =>
    mapError(readToBound(path, { maxBytes: MAX_BYTES }), (error) =>
      error instanceof OutsideFileError
        ? new BootloaderError('boot-environment-unreadable', error.message, { cause: error })
        : error,
    ),
};
