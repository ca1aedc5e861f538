import { statSync } from 'node:fs';
import process from 'node:process';

import { systemErrorCode } from '../errors.ts';

const LOCAL_TIME = '/etc/localtime';

let seen = identityOf(LOCAL_TIME);
let changes = 0;

/**
 * Makes the runtime read the time zone again if the system has been given another one, since it reads the zone only
 * once. Call it before local time is used. Returns how often the zone has changed. TZ in the environment rules out a
 * change, as for any other program.
 */
export function followTimeZone(): number {
  if (process.env['TZ'] !== undefined) return changes;
  const now = identityOf(LOCAL_TIME);
  if (now === seen) return changes;
  seen = now;
  changes += 1;
  delete process.env['TZ']; // Node then drops the zone that it knows, although there was none to delete
  return changes;
}

/** Identifies the file of the zone, through all links; timedatectl(1) replaces the link. */
function identityOf(path: string): string {
  try {
    const { dev, ino, mtimeMs } = statSync(path);
    return `${dev}:${ino}:${mtimeMs}`;
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === undefined) throw error;
    return code;
  }
}
