import { createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import { describeError } from '../system/errors.ts';
import { McuError } from './errors.ts';

/** The public key, in PEM form, with which a target's images for MCUboot must be signed. */
export async function loadMcubootKey(file: string): Promise<KeyObject> {
  try {
    return createPublicKey(await readFile(file));
  } catch (error) {
    throw new McuError(
      'mcuboot-key-unreadable',
      `${file} cannot be used as a key for MCUboot: ${describeError(error)}`,
      { cause: error },
    );
  }
}
