import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** A serial port of this gateway. */
export interface PortInfo {
  /** The name to write into a configuration: by what is plugged in where there is such a name. */
  readonly path: string;
  readonly device: string;
  /** What the USB device says of itself; undefined for built-in ports. */
  readonly description: string | undefined;
}

/** Where to look; the roots differ only in tests. */
export interface PortRoots {
  readonly dev: string;
  readonly sys: string;
}

const realRoots: PortRoots = { dev: '/dev', sys: '/sys' };
const maxHolders = 4;

/** The serial ports that exist, without udevadm: the links of udev and what the kernel says in sysfs. */
export async function listPorts(roots: PortRoots = realRoots): Promise<readonly PortInfo[]> {
  const byId = await linksById(roots);
  const ports: PortInfo[] = [];
  for (const name of await entries(join(roots.sys, 'class/tty'))) {
    const device = join(roots.sys, 'class/tty', name);
    if (!(await isRealPort(device))) continue;
    ports.push({
      path: byId.get(name) ?? join(roots.dev, name),
      device: join(roots.dev, name),
      description: await describeUsb(join(device, 'device')),
    });
  }
  return ports.sort((a, b) => a.path.localeCompare(b.path));
}

/** Is something plugged in there? */
export async function isPortPresent(path: string): Promise<boolean> {
  return (await orUndefined(realpath(path))) !== undefined;
}

/** The programs that have the port open, as `name (pid)`, as far as this user may see them. */
export async function holdersOf(path: string, proc = '/proc'): Promise<readonly string[]> {
  const device = (await orUndefined(realpath(path))) ?? path;
  const holders: string[] = [];
  for (const pid of await entries(proc)) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    for (const fd of await entries(join(proc, pid, 'fd'))) {
      if ((await orUndefined(readlink(join(proc, pid, 'fd', fd)))) !== device) continue;
      holders.push(`${(await textOf(join(proc, pid, 'comm'))) ?? 'a program'} (${pid})`);
      break;
    }
    if (holders.length >= maxHolders) break;
  }
  return holders;
}

async function linksById(roots: PortRoots): Promise<ReadonlyMap<string, string>> {
  const folder = join(roots.dev, 'serial/by-id');
  const links = new Map<string, string>();
  for (const name of await entries(folder)) {
    const target = await orUndefined(readlink(join(folder, name)));
    if (target !== undefined) links.set(basename(target), join(folder, name));
  }
  return links;
}

/** Terminals without a device are virtual; of the 8250 placeholders those that do not exist have type 0. */
async function isRealPort(tty: string): Promise<boolean> {
  if ((await orUndefined(readlink(join(tty, 'device')))) === undefined) return false;
  return (await textOf(join(tty, 'type'))) !== '0';
}

/** The USB device stands two folders above its tty's interface, or one for CDC ACM. */
async function describeUsb(device: string): Promise<string | undefined> {
  for (const above of ['..', '../..']) {
    const product = await textOf(join(await resolved(device), above, 'product'));
    if (product === undefined) continue;
    const maker = await textOf(join(await resolved(device), above, 'manufacturer'));
    return maker === undefined ? product : `${maker} ${product}`;
  }
  return undefined;
}

async function resolved(path: string): Promise<string> {
  return (await orUndefined(realpath(path))) ?? path;
}

async function entries(folder: string): Promise<readonly string[]> {
  return (await orUndefined(readdir(folder))) ?? [];
}

async function textOf(path: string): Promise<string | undefined> {
  return (await orUndefined(readFile(path, 'utf8')))?.trim();
}

/** Ports and programs come and go while one looks: what cannot be read is not there. */
async function orUndefined<T>(attempt: Promise<T>): Promise<T | undefined> {
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}
