import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';

/** The files that the kernel of a machine shows below `/`. */
export interface Machine {
  /** The publication of this machine. */
  readonly source: string;
  /** Files with their text. */
  readonly files: Readonly<Record<string, string>>;
  /** Links with the paths that they lead to. In the kernel and here they are relative. */
  readonly links?: Readonly<Record<string, string>>;
}

/** A machine in a temporary directory. */
export class SysfsTree implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), 'sysfs-'));

  constructor({ files, links = {} }: Pick<Machine, 'files' | 'links'>) {
    this.write(files);
    for (const [path, target] of Object.entries(links)) this.link(path, target);
  }

  write(files: Machine['files']): void {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      writeFileSync(join(this.root, path), text);
    }
  }

  link(path: string, target: string): void {
    const directory = dirname(join(this.root, path));
    mkdirSync(directory, { recursive: true });
    symlinkSync(relative(directory, join(this.root, target)), join(this.root, path));
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** Returns the files and links of a device as sysfs shows it: its directory below /sys/devices, and a link in the class. */
export function device(
  place: string,
  shown: string,
  attributes: Readonly<Record<string, string>>,
): Pick<Machine, 'files'> & { readonly links: Readonly<Record<string, string>> } {
  const directory = `sys/devices/${place}`;
  return {
    files: Object.fromEntries(Object.entries(attributes).map(([name, text]) => [`${directory}/${name}`, `${text}\n`])),
    links: { [shown]: directory },
  };
}

export function machine(source: string, ...devices: readonly Pick<Machine, 'files' | 'links'>[]): Machine {
  return {
    source,
    files: Object.assign({}, ...devices.map(({ files }) => files)) as Machine['files'],
    links: Object.assign({}, ...devices.map(({ links }) => links)) as Record<string, string>,
  };
}
