import { constants } from 'node:fs';
import { access, readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import { systemErrorCode, valueOrUndefined } from '../system/errors.ts';
import { SerialError } from './errors.ts';

const maxHolders = 4;

/** True if a device is plugged in at this path. */
export async function isPortPresent(path: string): Promise<boolean> {
  return (await valueOrUndefined(realpath(path))) !== undefined;
}

/** Throws `port-missing` for a board whose device is not plugged in. */
export async function requirePort(board: string, path: string): Promise<void> {
  if (!(await isPortPresent(path))) throw new SerialError('port-missing', `${board}: nothing is plugged in at ${path}`);
}

/** True if this user may not open the device at this path. */
export async function isPortDenied(path: string): Promise<boolean> {
  try {
    await access(path, constants.R_OK | constants.W_OK);
    return false;
  } catch (error) {
    return ['EACCES', 'EPERM'].includes(systemErrorCode(error) ?? '');
  }
}

/**
 * The programs that have the port open, as `name (pid)`, as far as this user may see them. This process is `this agent`:
 * another source or board has the port.
 */
export async function holdersOf(path: string, proc = '/proc'): Promise<readonly string[]> {
  const device = (await valueOrUndefined(realpath(path))) ?? path;
  const holders: string[] = [];
  for (const pid of await entries(proc)) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of await entries(join(proc, pid, 'fd'))) {
      if ((await valueOrUndefined(readlink(join(proc, pid, 'fd', fd)))) !== device) continue;
      const name = pid === String(process.pid) ? 'this agent' : await textOf(join(proc, pid, 'comm'));
      holders.push(`${name ?? 'a program'} (${pid})`);
      break;
    }
    if (holders.length >= maxHolders) break;
  }
  return holders;
}

/** Ports and programs may disappear at any time: an unreadable entry counts as missing. */
async function entries(folder: string): Promise<readonly string[]> {
  return (await valueOrUndefined(readdir(folder))) ?? [];
}

async function textOf(path: string): Promise<string | undefined> {
  return (await valueOrUndefined(readFile(path, 'utf8')))?.trim();
}
