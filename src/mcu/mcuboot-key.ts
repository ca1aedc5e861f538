import type { KeyObject } from 'node:crypto';

import { AgentError, describeError } from '../system/errors.ts';
import { MCUBOOT_RSA_MINIMUM_BITS, readPublicKey } from '../system/files/public-key.ts';
import { McuError } from './errors.ts';

/** Loads the public key (PEM) with which a target's images for MCUboot must be signed. */
export async function loadMcubootKey(file: string): Promise<KeyObject> {
  try {
    return (await readPublicKey(file, MCUBOOT_RSA_MINIMUM_BITS)).key;
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const why = describeError(error);
    throw new McuError('mcuboot-key-unreadable', `${file} cannot be used as a key for MCUboot: ${why}`, {
      cause: error,
    });
  }
}
