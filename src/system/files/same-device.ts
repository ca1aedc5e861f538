import { stat } from 'node:fs/promises';

import { valueOrUndefined } from '../errors.ts';

/** True if both paths lead to one device or file. False if nothing is there. */
export async function isSameDevice(one: string, other: string): Promise<boolean> {
  const [found, second] = await Promise.all([deviceAt(one), deviceAt(other)]);
  return found !== undefined && found === second;
}

/** Returns what identifies the device or file at a path, or undefined if nothing is there. */
export async function deviceAt(path: string): Promise<string | undefined> {
  const facts = await valueOrUndefined(stat(path, { bigint: true }));
  if (facts?.isBlockDevice() === true) return `block device ${facts.rdev}`;
  if (facts?.isCharacterDevice() === true) return `character device ${facts.rdev}`;
  return facts && `file ${facts.dev} ${facts.ino}`;
}
