import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';

import type { BootFs } from '../../../../src/slots/bootloaders/boot-fs.ts';
import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import type { Power } from '../../../fakes/machine/power.ts';

/** Runs real programs; a writing one can be interrupted before its start and after its end. */
export function poweredRun(power: Power, writes: (command: readonly string[]) => boolean, after?: Written): RunProgram {
  return async (command, options, signal) => {
    if (!writes(command)) return runProgram(command, options, signal);
    power.step(`start ${command.join(' ')}`);
    const result = await runProgram(command, options, signal);
    after?.(command);
    power.step(`end ${command.join(' ')}`);
    return result;
  };
}

type Written = (command: readonly string[]) => void;

const SECTOR_BYTES = 512;

/**
 * The real file system, with a power supply. Power loss before the fsync tears data written by `open(…, 'w')`, also
 * under its new name after a rename; a rename whose directory was not fsynced is undone. An overwrite in place is
 * undone without O_DSYNC, and torn with it, unless it stays within one sector: then it is complete. For a bootloader
 * that ignores the journal of a file system (`reader`), no rename has happened by the next boot, with or without fsync.
 */
export class PoweredFs {
  readonly #power: Power;
  readonly #reader: 'with journal' | 'without journal';
  readonly #unsynced = new Set<string>();
  /** Contents restored by an interruption. */
  readonly #replaced = new Map<string, Buffer>();

  constructor(power: Power, reader: 'with journal' | 'without journal') {
    this.#power = power;
    this.#reader = reader;
  }

  /** Applies a power loss to the files. */
  async lose(): Promise<void> {
    for (const path of this.#unsynced) {
      const { size } = await realFs.stat(path);
      await realFs.truncate(path, Math.floor(size / 2));
    }
    this.#unsynced.clear();
    for (const [path, old] of this.#replaced) await realFs.writeFile(path, old);
    this.#replaced.clear();
  }

  get api(): BootFs {
    const api = {
      readFile: realFs.readFile,
      realpath: realFs.realpath,
      rename: (from: string, to: string) => this.#rename(from, to),
      open: (path: string, flags: string | number, mode?: number) => this.#open(path, flags, mode),
    };
    return api as unknown as BootFs;
  }

  async #rename(from: string, to: string): Promise<void> {
    await this.#keep(to);
    await realFs.rename(from, to);
    if (this.#unsynced.delete(from)) this.#unsynced.add(to);
    this.#power.step(`rename ${from} ${to}`);
  }

  async #open(path: string, flags: string | number, mode?: number): Promise<object> {
    const file = await realFs.open(path, flags, mode);
    if (flags === 'w') {
      this.#unsynced.add(path);
      this.#step(file, `create ${path}`);
    }
    return {
      writeFile: async (data: string | Buffer) => {
        await file.writeFile(data);
        this.#power.step(`write ${path}`);
      },
      write: async (data: Buffer, from: number, length: number, at: number) => {
        const isDurable = typeof flags === 'number' && (flags & constants.O_DSYNC) !== 0;
        if (!isDurable) await this.#keep(path);
        const written = await file.write(data, from, length, at);
        if (Math.floor(at / SECTOR_BYTES) !== Math.floor((at + length - 1) / SECTOR_BYTES)) this.#unsynced.add(path);
        this.#power.step(`overwrite ${path}`);
        return written;
      },
      read: async (into: Buffer, from: number, length: number, at: number) => file.read(into, from, length, at),
      sync: async () => {
        await file.sync();
        this.#unsynced.delete(path);
        if ((await file.stat()).isDirectory() && this.#reader === 'with journal') this.#replaced.clear();
        this.#power.step(`fsync ${path}`);
      },
      [Symbol.asyncDispose]: () => file.close(),
    };
  }

  async #keep(path: string): Promise<void> {
    if (!this.#replaced.has(path)) this.#replaced.set(path, await realFs.readFile(path));
  }

  #step(file: realFs.FileHandle, name: string): void {
    try {
      this.#power.step(name);
    } catch (error) {
      void file.close();
      throw error;
    }
  }
}
