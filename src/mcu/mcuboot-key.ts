import { createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import { AgentError, describeError } from '../system/errors.ts';

/** The public key, in PEM form, with which a target's images for MCUboot must be signed. */
export async function loadMcubootKey(file: string): Promise<KeyObject> {
  try {
    return createPublicKey(await readFile(file));
  } catch (error) {
    throw new AgentError({
      code: 'mcuboot-key-unreadable',
      message: `${file} cannot be used as a key for MCUboot: ${describeError(error)}`,
      remedy: 'give-up',
      exit: 'configuration',
      advice: 'mcuboot_key_file of the target names a public key in PEM form',
      cause: error,
    });
  }
}
