import { lstatSync, readlinkSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, isAbsolute, join } from 'node:path';

import { undefinedIf, valueOrUndefined } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { describeExposures, findExposures } from './protected-file.ts';
import type { Exposure, StatFs } from './protected-file.ts';
import { isUnreadable, readUntrustedFile } from './untrusted-file.ts';

/** Linux reads this number of bytes of a script to find its interpreter (BINPRM_BUF_SIZE). */
const FIRST_BYTES = 256;
const SEPARATOR = /[ \t]+/;
/** Checks synchronously: threads would cost more than the checks, and execve(2) walks the same path and waits, too. */
const atOnce: StatFs = { lstat: async (path) => lstatSync(path), readlink: async (path) => readlinkSync(path) };

/**
 * Guarantee `guarded-files`: finds what lets others change what a program does: the file and, for a script, its
 * interpreters.
 */
export async function findProgramExposures(
  path: string,
  searched = process.env['PATH'] ?? '',
): Promise<readonly Exposure[]> {
  const found = new Map<string, Exposure>();
  for (const file of [path, ...(await interpretersOf(path, searched))]) {
    for (const exposure of await findExposures(file, atOnce)) found.set(exposure.path, exposure);
  }
  return [...found.values()];
}

/**
 * Programs that run another one or a script, each with the options after which the code itself follows. A word with the
 * options of a shell, such as `-ec`, may have several.
 */
const runners: readonly (readonly [RegExp, RegExp])[] = [
  [/^(?:ba|da|a|k|z)?sh$/, /^-\w*c$/],
  [/^python[\d.]*$/, /^-\w*[cm]$/],
  [/^(?:perl|ruby|lua[\d.]*)$/, /^-\w*[eE]$/],
  [/^node(?:js)?$/, /^(?:-\w*[ep]|--eval|--print)$/],
  [/^php[\d.]*$/, /^-r$/],
  [/^(?:busybox|env|timeout|nice|ionice|nohup|setsid|stdbuf)$/, /^$/],
];

/** Returns the script that a command runs by an interpreter, or the program that it runs by another one, if absolute. */
export function scriptOf([program = '', ...words]: readonly string[]): string | undefined {
  let inline = inlineOptionOf(program);
  for (const word of words) {
    if (inline?.test(word) !== false) return undefined;
    const next = inlineOptionOf(word);
    if (next === undefined && isAbsolute(word)) return word;
    inline = next ?? inline;
  }
  return undefined;
}

function inlineOptionOf(program: string): RegExp | undefined {
  return runners.find(([name]) => name.test(basename(program)))?.[1];
}

/**
 * Throws `writable-by-others`: anyone who can change a program that runs with the agent's rights has these rights, too.
 */
export async function refuseExposedProgram(path: string): Promise<void> {
  const exposures = await findProgramExposures(path);
  if (exposures.length === 0) return;
  throw new SystemError('writable-by-others', `${path} is not trusted: ${describeExposures(exposures)}`);
}

/** The programs in the first line of a script: the interpreter, and the program that env(1) looks for. */
async function interpretersOf(path: string, searched: string): Promise<readonly string[]> {
  const [interpreter, ...words] = await wordsOfFirstLine(path);
  if (interpreter === undefined || !isAbsolute(interpreter)) return [];
  if (!interpreter.endsWith('/env')) return [interpreter];
  const name = words.find((word) => !word.startsWith('-') && !word.includes('='));
  const program = name === undefined ? undefined : await findProgram(name, searched);
  return program === undefined ? [interpreter] : [interpreter, program];
}

/**
 * Returns the words behind `#!`. Empty if the file is not a script, or cannot be read, which starting it will report.
 */
async function wordsOfFirstLine(path: string): Promise<readonly string[]> {
  const bytes = await undefinedIf(isUnreadable, readUntrustedFile(path, { maxBytes: FIRST_BYTES, longer: 'cut' }));
  const [, line = ''] = /^#!([^\n]*)/.exec(bytes?.toString('latin1') ?? '') ?? [];
  return line.split(SEPARATOR).filter((word) => word !== '');
}

/** The path where execvp(3) finds a program. */
export async function findProgram(name: string, searched: string): Promise<string | undefined> {
  if (name.includes('/')) return isAbsolute(name) ? name : undefined;
  for (const folder of searched.split(':').filter(isAbsolute)) {
    const path = join(folder, name);
    if ((await valueOrUndefined(stat(path))) !== undefined) return path;
  }
  return undefined;
}
