import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { systemErrorCode } from '../../system/errors.ts';
import { ImageFiles } from '../../system/files/image-files.ts';
import { OutsideFileError, readOutsideFile } from '../../system/files/outside-file.ts';

/** The installed drop-in, which is linked where the agent has a helper. */
export const DROP_IN = '/usr/lib/thing-agent/two-processes.conf';
/** By its number it comes before drop-ins of the integrator. */
export const LINK = '/etc/systemd/system/thing-agent.service.d/10-two-processes.conf';
export const HELPER_SOCKET = '/run/thing-helper/helper.sock';
const UNIT = 'thing-agent.service';
const RESTART = 'then systemctl daemon-reload and restart the agent';
/** Sources: systemd.unit(5), table 1. */
const FOLDERS = ['/etc/systemd/system', '/run/systemd/system', '/usr/lib/systemd/system', '/lib/systemd/system'];
const MAX_BYTES = 64 * 1024;
const MAX_DROP_INS = 100;

export interface Mixture {
  readonly why: string;
  /** What to do. */
  readonly advice: string;
}

/** A mixture in one line, with the key of the configuration that it is about. */
export function describeMixture({ why, advice }: Mixture): string {
  return `system.helper: ${why}: ${advice}`;
}

/**
 * Why the unit of the agent and the configuration do not fit together, and what to do: two processes are a drop-in,
 * which gives the agent a user of its own, and a setting that names the helper. Undefined: both are there, or neither,
 * or systemd does not start the agent. `helper`: what the configuration names.
 */
export async function findMixture(
  helper: string | undefined,
  image: ImageFiles = new ImageFiles('/'),
): Promise<Mixture | undefined> {
  const dropIn = await findDropIn(image);
  if (dropIn !== undefined && helper === undefined)
    return {
      why: `${dropIn} gives the agent a user of its own, which can install nothing without a helper`,
      advice: `set [system] helper = "${HELPER_SOCKET}", or remove ${dropIn}; ${RESTART}`,
    };
  if (dropIn === undefined && helper !== undefined && (await hasUnit(image)))
    return {
      why: `${UNIT} is not linked to the helper that [system] helper names: it runs as root, and one process does all`,
      advice: `ln -s ${DROP_IN} ${LINK}, or remove the line; ${RESTART}`,
    };
  return undefined;
}

/** The drop-in that gives the agent a user of its own; undefined: it runs as root. */
export async function findDropIn(image: ImageFiles = new ImageFiles('/')): Promise<string | undefined> {
  for (const folder of FOLDERS.map((path) => join(path, `${UNIT}.d`))) {
    for (const name of await namesIn(folder, image)) {
      const path = join(folder, name);
      if (name.endsWith('.conf') && /^User=(?!root$|0$)\S/m.test((await textOf(path, image)) ?? '')) return path;
    }
  }
  return undefined;
}

async function hasUnit(image: ImageFiles): Promise<boolean> {
  for (const folder of FOLDERS) if ((await textOf(join(folder, UNIT), image)) !== undefined) return true;
  return false;
}

async function namesIn(folder: string, image: ImageFiles): Promise<readonly string[]> {
  try {
    return (await readdir(await image.locate(folder))).toSorted().slice(0, MAX_DROP_INS);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return [];
  }
}

/** Undefined: it cannot be read. */
async function textOf(path: string, image: ImageFiles): Promise<string | undefined> {
  try {
    return (await readOutsideFile(await image.locate(path), { maxBytes: MAX_BYTES })).toString('utf8');
  } catch (error) {
    if (systemErrorCode(error) === undefined && !(error instanceof OutsideFileError)) throw error;
    return undefined;
  }
}
