import * as realFs from 'node:fs/promises';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { GrubFs } from '../../../../src/slots/bootloaders/grub.ts';
import { runProgram } from '../../../../src/system/child-process.ts';
import type { Power } from '../../../stand-ins/machine/power.ts';

/** Runs programs for real; one that writes can be cut before it starts and after it ended. */
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

/**
 * The real file system, with a power supply. What was written by `open(…, 'w')` or by a program is torn by a cut that
 * comes before its fsync, also under the name that it was renamed to; a rename whose directory was not fsynced is undone.
 * An overwrite in place within one sector is whole or not at all.
 */
export class PoweredFs {
  readonly #power: Power;
  readonly #unsynced = new Set<string>();
  readonly #replaced = new Map<string, Buffer>();

  constructor(power: Power) {
    this.#power = power;
  }

  /** A program has written to this file. */
  touched(path: string): void {
    this.#unsynced.add(path);
  }

  /** What a power cut does to the files. */
  async lose(): Promise<void> {
    for (const path of this.#unsynced) {
      const { size } = await realFs.stat(path);
      await realFs.truncate(path, Math.floor(size / 2));
    }
    this.#unsynced.clear();
    for (const [path, old] of this.#replaced) await realFs.writeFile(path, old);
    this.#replaced.clear();
  }

  get api(): GrubFs {
    const api = {
      readFile: realFs.readFile,
      realpath: realFs.realpath,
      rename: (from: string, to: string) => this.#rename(from, to),
      open: (path: string, flags: string | number, mode?: number) => this.#open(path, flags, mode),
    };
    return api as unknown as GrubFs;
  }

  async #rename(from: string, to: string): Promise<void> {
    const old = await realFs.readFile(to);
    await realFs.rename(from, to);
    if (this.#unsynced.delete(from)) this.#unsynced.add(to);
    if (!this.#replaced.has(to)) this.#replaced.set(to, old);
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
        const written = await file.write(data, from, length, at);
        if (at + length > 512) this.#unsynced.add(path);
        this.#power.step(`overwrite ${path}`);
        return written;
      },
      sync: async () => {
        await file.sync();
        this.#unsynced.delete(path);
        if ((await file.stat()).isDirectory()) this.#replaced.clear();
        this.#power.step(`fsync ${path}`);
      },
      [Symbol.asyncDispose]: () => file.close(),
    };
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
