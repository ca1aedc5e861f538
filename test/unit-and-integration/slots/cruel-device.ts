import type { DeviceAccess, DeviceFile, OpenDevice } from '../../../src/slots/device-file.ts';

const sectorBytes = 512;

export interface Transfer {
  readonly kind: 'read' | 'write';
  readonly position: number;
  readonly length: number;
  readonly direct: boolean;
}

type Operation = 'open' | 'read' | 'write' | 'sync' | 'datasync';

/** A drive in memory that loses unflushed data, transfers less than requested, fails and returns wrong data. */
export class CruelDevice {
  readonly #medium: Buffer;
  /** Data that the drive has accepted but not stored. */
  readonly #cache: Buffer;
  readonly #unkept = new Set<number>();
  readonly #counts = { open: 0, read: 0, write: 0, sync: 0, datasync: 0 };
  readonly #failures: { readonly operation: Operation; readonly nth: number; readonly code: string }[] = [];
  readonly #lies = new Map<number, number>();
  readonly transfers: Transfer[] = [];
  openFiles = 0;
  /** A file was closed during a transfer. */
  closedInUse = false;
  /** Limit of sectors in one transfer. */
  sectorsAtOnce: () => number = () => Number.POSITIVE_INFINITY;
  direct: 'taken' | 'refused at open' | 'refused at transfer' = 'taken';
  /** Every transfer waits for it. */
  ready: Promise<void> = Promise.resolve();

  constructor(content: Buffer) {
    this.#medium = Buffer.from(content);
    this.#cache = Buffer.from(content);
  }

  readonly open: OpenDevice = async (_path, access) => {
    this.#count('open');
    if (access.direct && this.direct === 'refused at open') throw systemError('EINVAL');
    this.openFiles += 1;
    return this.#file(access);
  };

  /** The nth operation of this kind, counted from now, and all after it fail. */
  failFrom(operation: Operation, nth: number, code: string): void {
    this.#failures.push({ operation, nth: this.#counts[operation] + nth, code });
  }

  /** From now on reading this byte returns another value. */
  lieAt(position: number): void {
    this.#lies.set(position, 0xff);
  }

  count(operation: Operation): number {
    return this.#counts[operation];
  }

  writes(): readonly Transfer[] {
    return this.transfers.filter((transfer) => transfer.kind === 'write');
  }

  /** The content for a reader. */
  content(sizeBytes: number): Buffer {
    return Buffer.from(this.#cache.subarray(0, sizeBytes));
  }

  /** Each sector that was not flushed is old or new. */
  cutPower(random: () => number): void {
    for (const sector of this.#unkept) {
      const [from, to] = [sector * sectorBytes, (sector + 1) * sectorBytes];
      if (random() < 0.5) this.#cache.copy(this.#medium, from, from, to);
      else this.#medium.copy(this.#cache, from, from, to);
    }
    this.#unkept.clear();
  }

  #file(access: DeviceAccess): DeviceFile {
    let inUse = 0;
    const transfer = async (kind: 'read' | 'write', bytes: Uint8Array, position: number): Promise<number> => {
      this.#count(kind);
      inUse += 1;
      await this.ready;
      inUse -= 1;
      if (access.direct) this.#checkDirect(bytes, position);
      if (kind === 'write' && !access.write) throw systemError('EBADF');
      const left = Math.max(0, this.#cache.byteLength - position);
      if (kind === 'write' && left === 0) throw systemError('ENOSPC');
      const length = Math.min(bytes.byteLength, left, this.sectorsAtOnce() * sectorBytes);
      this.transfers.push({ kind, position, length, direct: access.direct });
      if (kind === 'read') this.#read(bytes, position, length);
      else this.#write(bytes, position, length);
      return length;
    };
    const flush = async (operation: 'sync' | 'datasync'): Promise<void> => {
      this.#count(operation);
      await this.ready;
      this.#cache.copy(this.#medium);
      this.#unkept.clear();
    };
    return {
      read: async (into, position) => transfer('read', into, position),
      write: async (from, position) => transfer('write', from, position),
      sync: async () => flush('sync'),
      datasync: async () => flush('datasync'),
      close: async () => {
        this.openFiles -= 1;
        this.closedInUse ||= inUse > 0;
      },
    };
  }

  #read(into: Uint8Array, position: number, length: number): void {
    into.set(this.#cache.subarray(position, position + length));
    for (const [at, mask] of this.#lies) {
      if (at >= position && at < position + length) into[at - position] = (into[at - position] ?? 0) ^ mask;
    }
  }

  #write(from: Uint8Array, position: number, length: number): void {
    this.#cache.set(from.subarray(0, length), position);
    const last = Math.floor((position + length - 1) / sectorBytes);
    for (let sector = Math.floor(position / sectorBytes); sector <= last; sector += 1) this.#unkept.add(sector);
  }

  #checkDirect(bytes: Uint8Array, position: number): void {
    const { buffer, byteOffset, byteLength } = bytes;
    const pageAligned = buffer instanceof SharedArrayBuffer && buffer.growable;
    const aligned = [position, byteOffset, byteLength].every((value) => value % sectorBytes === 0);
    if (!pageAligned || !aligned || this.direct === 'refused at transfer') throw systemError('EINVAL');
  }

  #count(operation: Operation): void {
    this.#counts[operation] += 1;
    const failure = this.#failures.find((each) => each.operation === operation && this.#counts[operation] >= each.nth);
    if (failure !== undefined) throw systemError(failure.code);
  }
}

export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: the device says no`), { code });
}
