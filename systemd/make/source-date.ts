import { execFile } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

const project = join(import.meta.dirname, '../..');

/** Returns the time of all packed files, in seconds since 1970: SOURCE_DATE_EPOCH, or the time of the last commit. */
export async function sourceDate(): Promise<number> {
  const given = process.env['SOURCE_DATE_EPOCH'];
  if (given !== undefined) return Number(given);
  try {
    const words = ['-C', project, 'log', '-1', '--format=%ct'];
    return Number((await promisify(execFile)('git', words, { timeout: 60_000 })).stdout);
  } catch (error) {
    throw new Error('set SOURCE_DATE_EPOCH: there is no commit whose time the files could have', { cause: error });
  }
}
