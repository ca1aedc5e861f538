import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * An open block device or file, with positions in bytes. All access of the slots to the operating system goes through
 * it, so that tests can put a cruel medium here. Errors are the operating system's.
 */
export interface DeviceFile {
  /** Reads at most `into.byteLength` bytes, perhaps fewer; 0 at the end. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes at least one byte, perhaps not all. */
  write(from: Uint8Array, position: number): Promise<number>;
  /** Returns when everything written to the device, through any descriptor, is on the medium. */
  sync(): Promise<void>;
  /** Like `sync`, but metadata such as the time of the last write may be missing. */
  datasync(): Promise<void>;
  close(): Promise<void>;
}

export interface DeviceAccess {
  readonly write: boolean;
  /** Bypass the page cache (O_DIRECT). Address, length and position must then be aligned. */
  readonly direct: boolean;
  /** For a block device: fail if it is mounted or claimed by others (O_EXCL, EBUSY). */
  readonly exclusive: boolean;
}

export type OpenDevice = (path: string, access: DeviceAccess) => Promise<DeviceFile>;

/** Opens an existing device or file; never creates one. */
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
