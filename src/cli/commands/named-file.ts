import { isAbsolute, resolve } from 'node:path';

import { ArgumentError } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';

/** The whole path of a file that was typed. Throws Misuse if it is relative to a directory that is gone. */
export function wholePath(file: string, { directory }: Pick<CliContext, 'directory'>): string {
  if (directory === undefined && !isAbsolute(file))
    throw new ArgumentError(`the working directory is gone, in which ${file} was looked for; cd to one that exists`);
  return resolve(directory ?? '/', file);
}
