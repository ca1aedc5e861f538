import { DatabaseSync } from 'node:sqlite';

/**
 * Opens a database for this process alone. Otherwise SQLite would map a file into memory to share it (`-shm`), and a
 * full disk would end the process by SIGBUS if the blocks of the file system are smaller than a page, as mkfs.ext4
 * makes them below 512 MiB.
 */
export function openExclusive(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  db.exec('PRAGMA locking_mode = EXCLUSIVE');
  return db;
}
