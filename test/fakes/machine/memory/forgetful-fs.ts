import type { PackageFs } from '../../../../src/package/package-store.ts';
import { OutsideFileError } from '../../../../src/system/files/untrusted-file.ts';
import type { Power } from '../power.ts';

/** The text of an entry that is not a file, such as a directory. */
export const NO_FILE = '\0no file';

/** A file's bytes: those certainly on the medium, and those that a running system sees. */
interface Inode {
  durable: string;
  current: string;
}

/**
 * A file system that forgets. After a power cut, bytes that were not fsynced are there, gone, or torn at any byte, and
 * names that were not fsynced with their directory are old or new, each independently of the others. Directories are
 * flat: there is one.
 */
export class ForgetfulFs {
  readonly #power: Power;
  readonly #random: () => number;
  #durableNames = new Map<string, Inode>();
  #names = new Map<string, Inode>();
  full = false;
  /** For a file system that is readable but not writable: the code of the error, such as EROFS. */
  unchangeable: string | undefined;
  /** For a file system that is not readable either. */
  unreadable: string | undefined;
  /** Asked before each change: the code of the error that it fails with, such as ENOSPC. */
  trouble: () => string | undefined = () => undefined;

  constructor(power: Power, random: () => number, files: Readonly<Record<string, string>> = {}) {
    this.#power = power;
    this.#random = random;
    for (const [path, text] of Object.entries(files)) this.put(path, text);
  }

  /** As if it had been there for long. */
  put(path: string, text: string): void {
    const inode = { durable: text, current: text };
    this.#names.set(path, inode);
    this.#durableNames.set(path, inode);
  }

  /** The files that a running system sees. */
  get files(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#names].map(([path, { current }]) => [path, current]));
  }

  /** An orderly shutdown. */
  sync(): void {
    for (const inode of this.#names.values()) inode.durable = inode.current;
    this.#durableNames = new Map(this.#names);
  }

  /** Reverts to the content of the medium after a power loss. */
  forget(): void {
    const names = new Map<string, Inode>();
    // Only a file can have two names or be lost during a rename.
    const isMoved = this.#random() < 0.5;
    for (const name of new Set([...this.#durableNames.keys(), ...this.#names.keys()])) {
      const [before, now] = [this.#durableNames.get(name), this.#names.get(name)];
      const isNoFile = before?.current === NO_FILE || now?.current === NO_FILE;
      const isOld = isNoFile ? !isMoved : this.#random() < 0.5;
      const inode = isOld ? before : now;
      if (inode !== undefined) names.set(name, inode);
    }
    for (const inode of new Set(names.values())) {
      inode.durable = this.#tear(inode);
      inode.current = inode.durable;
    }
    this.#durableNames = new Map(names);
    this.#names = names;
  }

  read(path: string): string | undefined {
    return this.#names.get(path)?.current;
  }

  /** As node:fs/promises, as far as durable files need it. */
  get api(): PackageFs {
    const api = {
      readFile: async (path: string) => this.#readFile(path),
      rename: async (from: string, to: string) => this.#rename(from, to),
      open: async (path: string, flags: string) => this.#open(path, flags),
      mkdir: async () => undefined,
      readdir: async (path: string) =>
        [...this.#names.keys()]
          .filter((name) => name.startsWith(`${path}/`))
          .map((name) => name.slice(path.length + 1)),
      rm: async (path: string) => this.#remove(path),
    };
    return api as unknown as PackageFs;
  }

  #readFile(path: string): string {
    this.#refuseInTrouble(this.unreadable);
    const inode = this.#names.get(path);
    if (inode === undefined) throw Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' });
    if (inode.current === NO_FILE) throw new OutsideFileError('it is not a regular file');
    return inode.current;
  }

  #rename(from: string, to: string): void {
    this.#refuseChange();
    this.#power.step(`rename ${from} ${to}`);
    const inode = this.#names.get(from);
    if (inode === undefined) throw Object.assign(new Error(`ENOENT: ${from}`), { code: 'ENOENT' });
    if (this.#names.get(to)?.current === NO_FILE) this.#refuseInTrouble('EISDIR');
    this.#names.delete(from);
    this.#names.set(to, inode);
  }

  #remove(path: string): void {
    if (!this.#names.has(path)) return;
    this.#refuseChange();
    this.#power.step(`remove ${path}`);
    this.#names.delete(path);
  }

  #open(path: string, flags: string): object {
    if (flags === 'r') {
      const found = this.#names.get(path);
      const sync = async (): Promise<void> =>
        found === undefined ? this.#syncDirectory() : this.#syncFile(path, found);
      // a folder has no name here, and is opened to be synced
      if (found === undefined && path.endsWith('.deb')) this.#readFile(path);
      return { ...this.#bytes(path, found ?? { durable: '', current: '' }), sync };
    }
    const kept = flags === 'r+' ? this.#names.get(path) : undefined;
    if (kept !== undefined) return this.#bytes(path, kept);
    this.#refuseChange();
    if (this.#names.get(path)?.current === NO_FILE) this.#refuseInTrouble('EISDIR');
    this.#power.step(`create ${path}`);
    const inode: Inode = { durable: '', current: '' };
    this.#names.set(path, inode);
    return {
      writeFile: async (text: string) => {
        this.#power.need(`write ${path}`);
        inode.current = text.slice(0, text.length / 2);
        this.#refuseInTrouble(this.full ? 'ENOSPC' : this.trouble());
        inode.current = text;
        this.#power.step(`write ${path}`);
      },
      ...this.#bytes(path, inode),
    };
  }

  /** Places of an open file. */
  #bytes(path: string, inode: Inode): object {
    return {
      write: async (bytes: Uint8Array, from: number, length: number, at: number) => {
        this.#refuseChange();
        this.#power.need(`write ${path}`);
        const text = Buffer.from(bytes.subarray(from, from + length)).toString('latin1');
        inode.current = inode.current.slice(0, at) + text + inode.current.slice(at + length);
        this.#power.step(`write ${path}`);
        return { bytesWritten: length };
      },
      read: async (bytes: Buffer, into: number, length: number, at: number) => ({
        bytesRead: bytes.write(inode.current.slice(at, at + length), into, 'latin1'),
      }),
      truncate: async (length: number) => {
        inode.current = inode.current.slice(0, length);
      },
      close: async () => {},
      sync: async () => this.#syncFile(path, inode),
      [Symbol.asyncDispose]: async () => {},
    };
  }

  #refuseChange(): void {
    this.#refuseInTrouble(this.unchangeable ?? this.trouble());
  }

  #refuseInTrouble(code: string | undefined): void {
    if (code !== undefined) throw Object.assign(new Error(`${code}: made to fail`), { code });
  }

  #syncFile(path: string, inode: Inode): void {
    this.#refuseInTrouble(this.trouble());
    this.#power.step(`fsync ${path}`);
    inode.durable = inode.current;
  }

  #syncDirectory(): void {
    this.#refuseInTrouble(this.trouble());
    this.#power.step('fsync directory');
    this.#durableNames = new Map(this.#names);
  }

  #tear(inode: Inode): string {
    if (inode.durable === inode.current) return inode.current;
    const chance = this.#random();
    if (chance < 0.3) return inode.current;
    if (chance < 0.6) return inode.durable;
    return inode.current.slice(0, Math.floor(this.#random() * inode.current.length));
  }
}
