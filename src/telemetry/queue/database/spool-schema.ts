/** Raised with every change of the tables. A spool of another format is set aside like a damaged one. */
export const spoolFormat = 1;

/**
 * There is one table per class, so that the oldest points of a class are at the front of a table and no index is
 * needed: an index would double what is written. A stream is an event in a class; it holds the counts, so that nothing
 * is counted at the start. `at` is missing if the clock was not set; `boot` and `ms` (since that boot) say when a point
 * arrived.
 */
export const spoolSchema = `
  CREATE TABLE streams (
    id INTEGER PRIMARY KEY, event TEXT NOT NULL, class TEXT NOT NULL,
    last_at INTEGER NOT NULL, last_ms INTEGER NOT NULL, points INTEGER NOT NULL, bytes INTEGER NOT NULL,
    UNIQUE (event, class));
  CREATE TABLE boots (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last_ms INTEGER NOT NULL, offset INTEGER);
  CREATE TABLE urgent (seq INTEGER PRIMARY KEY, stream INTEGER, at INTEGER, boot INTEGER, ms INTEGER, value TEXT);
  CREATE TABLE normal (seq INTEGER PRIMARY KEY, stream INTEGER, at INTEGER, boot INTEGER, ms INTEGER, value TEXT);
  CREATE TABLE bulk   (seq INTEGER PRIMARY KEY, stream INTEGER, at INTEGER, boot INTEGER, ms INTEGER, value TEXT);
  CREATE TABLE properties (id TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE dead (seq INTEGER PRIMARY KEY, event TEXT NOT NULL, at INTEGER NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL);
  PRAGMA user_version = ${spoolFormat};
`;
