import { closeSync, copyFileSync, openSync, readSync, writeSync } from 'node:fs';

import { pieces } from './cut.ts';
import type { Survivor } from './cut.ts';
import { SECTOR } from './write-log.ts';

/** The disk as a file: durable data stays, the other data of an interruption is added and removed again. */
export class VirtualDisk implements Disposable {
  readonly path: string;
  readonly #descriptor: number;
  #undo: { readonly offset: number; readonly before: Buffer }[] = [];

  private constructor(path: string) {
    this.path = path;
    this.#descriptor = openSync(path, 'r+');
  }

  /** On a copy of the disk before the first write. */
  static of(base: string, path: string): VirtualDisk {
    copyFileSync(base, path);
    return new VirtualDisk(path);
  }

  static at(path: string): VirtualDisk {
    return new VirtualDisk(path);
  }

  keep(survivor: Survivor): void {
    for (const { sector, data } of pieces(survivor)) writeSync(this.#descriptor, data, 0, data.length, sector * SECTOR);
  }

  lay(survivor: Survivor): void {
    for (const { sector, data } of pieces(survivor)) {
      this.#undo.push(this.#read(sector * SECTOR, data.length));
      writeSync(this.#descriptor, data, 0, data.length, sector * SECTOR);
    }
  }

  /** From now on until `takeAway`, this area may be changed by others. */
  guard(sector: number, sectors: number): void {
    this.#undo.push(this.#read(sector * SECTOR, sectors * SECTOR));
  }

  takeAway(): void {
    for (const { offset, before } of this.#undo.toReversed()) {
      writeSync(this.#descriptor, before, 0, before.length, offset);
    }
    this.#undo = [];
  }

  read(sector: number, sectors: number): Buffer {
    return this.#read(sector * SECTOR, sectors * SECTOR).before;
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }

  #read(offset: number, length: number): { readonly offset: number; readonly before: Buffer } {
    const before = Buffer.alloc(length);
    readSync(this.#descriptor, before, 0, length, offset);
    return { offset, before };
  }
}
