import { dirname } from 'node:path';

import { systemErrorCode } from '../../system/errors.ts';
import {
  keepDraft,
  replaceFileDurably,
  StorageError,
  syncDirectory,
  writeDraft,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';

/** Of what was no file: nothing is removed, and nothing piles up. */
const MOST_ASIDE = 5;

/** A copy, for a person who looks for the cause; the agent goes on without. */
export async function copyAside(path: string, text: string, log: Log, fs: DurableFs): Promise<void> {
  try {
    await replaceFileDurably(`${path}.damaged`, text, fs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    log.warn({ code: error.code }, error.message);
  }
}

/**
 * Puts a file in the place of what is none, which is renamed, and durable under its new name before the file is there. Returns
 * that name. Where no file can be written, nothing is touched.
 */
export async function takePlace(path: string, text: string, fs: DurableFs): Promise<string> {
  const draft = await writeDraft(path, text, fs);
  const aside = await freeName(path, fs);
  try {
    await fs.rename(path, aside);
    await syncDirectory(dirname(path), fs);
  } catch (error) {
    throw new StorageError('set aside', path, error);
  }
  await keepDraft(draft, path, fs);
  return aside;
}

/** The power may fail before there is a file again. */
export async function wasSetAside(path: string, fs: DurableFs): Promise<boolean> {
  return !(await isFree(firstName(path), fs));
}

function firstName(path: string): string {
  return `${path}.unusable`;
}

async function freeName(path: string, fs: DurableFs): Promise<string> {
  for (let number = 1; number <= MOST_ASIDE; number += 1) {
    const name = number === 1 ? firstName(path) : `${firstName(path)}-${number}`;
    if (await isFree(name, fs)) return name;
  }
  const why = `it is not a regular file, and ${MOST_ASIDE} such were set aside before`;
  throw new StorageError('set aside', path, why, 'see what they are, and remove them');
}

async function isFree(path: string, fs: DurableFs): Promise<boolean> {
  try {
    await fs.readFile(path);
    return false;
  } catch (error) {
    return systemErrorCode(error) === 'ENOENT';
  }
}
