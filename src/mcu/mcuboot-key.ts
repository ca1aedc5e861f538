import { createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import { describeError } from '../system/errors.ts';
import { readOutsideFile } from '../system/outside-file.ts';
import { McuError } from './errors.ts';

const MAX_KEY_BYTES = 16 * 1024;

/** The public key, in PEM form, with which a target's images for MCUboot must be signed. */
export async function loadMcubootKey(file: string): Promise<KeyObject> {
  try {
    return createPublicKey(await readOutsideFile(file, { maxBytes: MAX_KEY_BYTES }));
  } catch (error) {
    throw new McuError(
      'mcuboot-key-unreadable',
      `${file} cannot be used as a key for MCUboot: ${describeError(error)}`,
      { cause: error },
    );
  }
}
