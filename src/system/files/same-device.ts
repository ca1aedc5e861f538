import { stat } from 'node:fs/promises';

import { systemErrorCode } from '../errors.ts';

/** True if both paths lead to one device or file. False if nothing is there. */
export async function isSameDevice(one: string, other: string): Promise<boolean> {
  const [found, second] = await Promise.all([identityAt(one), identityAt(other)]);
  return found !== undefined && found === second;
}

async function identityAt(path: string): Promise<string | undefined> {
  try {
    const facts = await stat(path, { bigint: true });
    if (facts.isBlockDevice()) return `block device ${facts.rdev}`;
    return facts.isCharacterDevice() ? `character device ${facts.rdev}` : `file ${facts.dev} ${facts.ino}`;
  } catch (error) {
    if (systemErrorCode(error) !== undefined) return undefined;
    throw error;
  }
}
