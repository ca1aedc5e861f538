import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * An open block device or file, with positions in bytes. The narrow place between the slots and the operating system:
 * tests put a cruel one here. Errors are the operating system's.
 */
export interface DeviceFile {
  /** Reads at most `into.byteLength` bytes; 0 at the end. May be short. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes at least one byte. May be short. */
  write(from: Uint8Array, position: number): Promise<number>;
  /** Returns when all that was written, through whatever opening, is on the medium. */
  sync(): Promise<void>;
  /** As `sync`, but what is only needed to know when it was written may be missing. */
  datasync(): Promise<void>;
  close(): Promise<void>;
}

export interface DeviceAccess {
  readonly write: boolean;
  /** Past the page cache (O_DIRECT): address, length and position must be aligned. */
  readonly direct: boolean;
  /** Of a block device: nobody else has mounted or claimed it (O_EXCL, EBUSY). */
  readonly exclusive: boolean;
}

export type OpenDevice = (path: string, access: DeviceAccess) => Promise<DeviceFile>;

/** Opens what exists; never creates. */
export const openDevice: OpenDevice = async (path, access) => {
  const flags =
    (access.write ? constants.O_RDWR : constants.O_RDONLY) |
    (access.direct ? constants.O_DIRECT : 0) |
    (access.exclusive ? constants.O_EXCL : 0);
  const handle = await open(path, flags);
  return {
    read: async (into, position) => (await handle.read(into, 0, into.byteLength, position)).bytesRead,
    write: async (from, position) => (await handle.write(from, 0, from.byteLength, position)).bytesWritten,
    sync: async () => handle.sync(),
    datasync: async () => handle.datasync(),
    close: async () => handle.close(),
  };
};
