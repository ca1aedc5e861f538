import { DatabaseSync } from 'node:sqlite';

/**
 * A database that nobody else opens. Otherwise SQLite maps a file into memory, which it shares with others (`-shm`), and a full
 * disk ends the process by SIGBUS where the file system's blocks are smaller than a page, as mkfs.ext4 makes them below 512 MiB.
 */
export function openAlone(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  db.exec('PRAGMA locking_mode = EXCLUSIVE');
  return db;
}
