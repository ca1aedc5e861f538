/** Raised with every change of the tables. A queue of another format is set aside like a damaged one. */
export const queueFormat = 2;

/**
 * A stream is an event or a property. A property keeps only its last value, in a row of its own. `at` is missing if the
 * clock was not set; `boot` and `ms` (since that boot) say when a datapoint arrived. `class` is computed from the seq,
 * see records.ts, and takes no space. `points` of a stream only shows how many are missing after damage.
 */
export const queueSchema = `
  CREATE TABLE streams (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, last_at INTEGER NOT NULL, last_ms INTEGER NOT NULL,
    points INTEGER NOT NULL, UNIQUE (kind, name));
  CREATE TABLE boots (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last_ms INTEGER NOT NULL, offset INTEGER);
  CREATE TABLE points (
    seq INTEGER PRIMARY KEY, stream INTEGER, at INTEGER, boot INTEGER, ms INTEGER, value TEXT,
    class INTEGER AS (seq >> 40));
  CREATE TABLE dead (seq INTEGER PRIMARY KEY, event TEXT NOT NULL, at INTEGER NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL);
  PRAGMA user_version = ${queueFormat};
`;
