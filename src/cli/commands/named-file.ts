import { basename, isAbsolute, resolve } from 'node:path';

import { AgentError, exitCodes, systemErrorCode } from '../../system/errors.ts';
import { openRegularFile, OutsideFileError } from '../../system/files/outside-file.ts';
import { Misuse } from '../arguments/command.ts';
import { shellWord } from '../arguments/shell-word.ts';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';

/** The whole path of a file that was typed. Throws Misuse if it is relative to a directory that is gone. */
export function wholePath(file: string, { directory }: Pick<CliContext, 'directory'>): string {
  if (directory === undefined && !isAbsolute(file))
    throw new Misuse(`the working directory is gone, in which ${file} was looked for; cd to one that exists`);
  return resolve(directory ?? '/', file);
}

/** The work with a named file. Throws `file-out-of-reach` if whoever does it cannot read the file, but this command can. */
export async function withNamedFile<T>(path: string, work: () => Promise<T>): Promise<T> {
  const isReadable = await canRead(path); // asked now, since this process may take the agent's rights
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== 'file-unreadable' || !isReadable) throw error;
    if (exitCodes[error.exit] === exitCodes.disk) throw error;
    const why = `the agent cannot read ${path}, which you can: it has a user and a /tmp of its own, and no /home`;
    const advice = `install -m 644 ${shellWord(path)} /srv/ && name /srv/${basename(path)}; or mount the medium with -o umask=022`;
    throw new CliError('file-out-of-reach', why, { advice, cause: error });
  }
}

async function canRead(path: string): Promise<boolean> {
  try {
    const file = await openRegularFile(path);
    await file.close();
    return true;
  } catch (error) {
    if (systemErrorCode(error) === undefined && !(error instanceof OutsideFileError)) throw error;
    return false;
  }
}
