import { DatabaseSync } from 'node:sqlite';
import type { SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';

import { TelemetryError } from '../../errors.ts';
import { pointBytes, pointOverheadBytes } from '../../point.ts';
import { classOf, emptyTotals, isWhole, rangeOf, rowClasses, wholeRange } from './records.ts';
import type { Amount, BootRecord, DeadLetter, SeqRange, StoredPoint, StreamRecord, Totals } from './records.ts';
import { queueFormat, queueSchema } from './schema.ts';
import { guarded, queueError } from './sqlite-errors.ts';

const pointColumns = 'seq, stream, at, boot, ms, value';

type Row = Record<string, SQLOutputValue>;

/** The tables of the queue, and the totals of their rows. Every method is synchronous and throws TelemetryError. */
export class QueueDatabase implements Disposable {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly totals: Totals = emptyTotals();

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Opens a file, and makes the tables if they are missing. */
  static open(path: string): QueueDatabase {
    let db: DatabaseSync | undefined;
    try {
      db = openExclusive(path);
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304');
      const format = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
      const tables = Number(db.prepare('SELECT count(*) AS n FROM sqlite_schema').get()?.['n']);
      if (format === 0 && tables === 0) db.exec(`BEGIN IMMEDIATE; ${queueSchema} COMMIT`);
      else if (format !== queueFormat)
        throw new TelemetryError('queue-damaged', `${path} has another format than this agent's queue`);
      const opened = new QueueDatabase(db);
      opened.#countRows();
      return opened;
    } catch (error) {
      db?.close();
      throw queueError(error);
    }
  }

  static openDamaged(path: string): QueueDatabase {
    return guarded(() => new QueueDatabase(openExclusive(path)));
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  /** Does all of the work or nothing. It is durable when this returns. */
  transaction(work: () => void): void {
    const before = structuredClone(this.totals);
    guarded(() => {
      this.#db.exec('BEGIN IMMEDIATE');
      try {
        work();
        this.#db.exec('COMMIT');
      } catch (error) {
        Object.assign(this.totals, before);
        if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
        throw error;
      }
    });
  }

  /** Returns all events, and the properties whose value waits. */
  streams(): readonly StreamRecord[] {
    const hasValue = `EXISTS (SELECT 1 FROM points WHERE seq = ${rangeOf('property').first} + id)`;
    return this.#all(`SELECT * FROM streams WHERE kind = 'event' OR ${hasValue}`).map((row) => ({
      id: Number(row['id']),
      kind: row['kind'] === 'property' ? 'property' : 'event',
      name: String(row['name']),
      lastAtMs: Number(row['last_at']),
      lastSinceBootMs: Number(row['last_ms']),
    }));
  }

  saveStream({ id, kind, name, lastAtMs, lastSinceBootMs }: StreamRecord): void {
    const times = 'last_at = excluded.last_at, last_ms = excluded.last_ms';
    const sql = `INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (id) DO UPDATE SET ${times}`;
    this.#run(sql, [id, kind, name, lastAtMs, lastSinceBootMs]);
  }

  deleteStream(id: number): void {
    this.#run('DELETE FROM streams WHERE id = ?', [id]);
  }

  /** Returns the ids of the events with datapoints. */
  eventsWithPoints(): ReadonlySet<number> {
    return new Set(
      this.#all("SELECT id FROM streams WHERE kind = 'event' AND points > 0").map((row) => Number(row['id'])),
    );
  }

  deleteIdleEvent(name: string): void {
    this.#run("DELETE FROM streams WHERE kind = 'event' AND name = ? AND points = 0", [name]);
  }

  /** Returns the number of datapoints that were written and not removed, also where they cannot be read. */
  expectedPoints(): number {
    return Number(this.#all("SELECT sum(points) AS n FROM streams WHERE kind = 'event'")[0]?.['n']);
  }

  boots(): readonly BootRecord[] {
    return this.#all('SELECT * FROM boots ORDER BY id').map((row) => ({
      id: Number(row['id']),
      name: String(row['name']),
      lastMs: Number(row['last_ms']),
      startedAtMs: optionalNumber(row['offset']),
    }));
  }

  /** Saves a boot. Writes nothing if nothing has changed. */
  saveBoot({ id, name, lastMs, startedAtMs }: BootRecord): void {
    const update = 'UPDATE SET last_ms = excluded.last_ms, offset = excluded.offset';
    const differs = 'last_ms IS NOT excluded.last_ms OR offset IS NOT excluded.offset';
    const sql = `INSERT OR REPLACE INTO boots VALUES (?, ?, ?, ?) ON CONFLICT (id) DO ${update} WHERE ${differs}`;
    this.#run(sql, [id, name, lastMs, startedAtMs ?? null]);
  }

  deleteBoot(id: number): void {
    this.#run('DELETE FROM boots WHERE id = ?', [id]);
  }

  /** Returns the highest number of a datapoint within its class. A row outside of all classes is damage. */
  lastNumber(): number {
    const [all] = this.#all('SELECT min(seq) AS first, max(seq) AS last FROM points');
    for (const seq of [optionalNumber(all?.['first']), optionalNumber(all?.['last'])]) {
      if (seq === undefined || (seq >= wholeRange.first && seq <= wholeRange.last)) continue;
      throw new TelemetryError('queue-damaged', `the queue is damaged: there is a row ${seq}`);
    }
    const numbers = rowClasses.map((rowClass) => {
      const { first, last } = rangeOf(rowClass);
      const [row] = this.#all('SELECT max(seq) AS last FROM points WHERE seq BETWEEN ? AND ?', [first, last]);
      return (optionalNumber(row?.['last']) ?? first) - first;
    });
    return Math.max(...numbers);
  }

  /** Adds rows, or replaces the row of a property. The streams must exist. */
  add(points: readonly StoredPoint[]): void {
    const sql = `INSERT OR REPLACE INTO points (${pointColumns}) VALUES (?, ?, ?, ?, ?, ?)`;
    for (const { seq, stream, atMs, boot, sinceBootMs, text } of points) {
      this.#run(sql, [seq, stream, atMs ?? null, boot, sinceBootMs, text]);
      const total = this.totals[classOf(seq)];
      total.points += 1;
      total.bytes += pointBytes(text);
    }
    for (const [stream, { length }] of Map.groupBy(points, (point) => point.stream)) {
      this.#run('UPDATE streams SET points = points + ? WHERE id = ?', [length, stream]);
    }
  }

  /** The rows of a range in their order, without some streams, as far as the caller reads. A row that cannot be a datapoint is damage. */
  *rows({ first, last }: SeqRange, without: readonly number[] = []): Generator<StoredPoint, undefined> {
    const others = without.length === 0 ? '' : `AND stream NOT IN (${without.join(', ')})`;
    const sql = `SELECT ${pointColumns} FROM points WHERE seq BETWEEN ? AND ? ${others} ORDER BY seq`;
    try {
      for (const row of this.#statement(sql, without.length === 0).iterate(first, last)) {
        const point = storedPoint(row);
        if (!isWhole(point))
          throw new TelemetryError('queue-damaged', 'the queue is damaged: a row cannot be a datapoint');
        yield point;
      }
    } catch (error) {
      throw queueError(error);
    }
  }

  /** The readable rows after a seq, for salvage. */
  after(seq: number, limit: number): readonly StoredPoint[] {
    const sql = `SELECT ${pointColumns} FROM points WHERE seq > ? ORDER BY seq LIMIT ?`;
    return this.#all(sql, [seq, limit]).map(storedPoint);
  }

  /** Removes the rows of a range within a class, of one stream or of all. Returns their number. */
  remove(range: SeqRange, stream?: number): number {
    const { points, bytes } = this.#amount(range, stream);
    const total = this.totals[classOf(range.first)];
    const { where, values } = rowsIn(range, stream);
    const gone = `SELECT stream, count(*) AS points ${where} GROUP BY stream`;
    const set = 'points = streams.points - gone.points';
    this.#run(`UPDATE streams SET ${set} FROM (${gone}) AS gone WHERE id = gone.stream`, values);
    this.#run(`DELETE ${where}`, values);
    total.points -= points;
    total.bytes -= bytes;
    return points;
  }

  deadLetters(limit: number): readonly DeadLetter[] {
    return this.#all('SELECT * FROM dead ORDER BY seq DESC LIMIT ?', [limit]).map((row) => ({
      event: String(row['event']),
      atMs: Number(row['at']),
      text: String(row['value']),
      reason: String(row['reason']),
    }));
  }

  countDeadLetters(): number {
    return Number(this.#all('SELECT count(*) AS n FROM dead')[0]?.['n']);
  }

  /** Adds a dead letter; only the newest `keep` ones remain. */
  addDeadLetter({ event, atMs, text, reason }: DeadLetter, keep: number): void {
    this.#run('INSERT INTO dead VALUES (NULL, ?, ?, ?, ?)', [event, atMs, text, reason]);
    const beyond = 'SELECT seq FROM dead ORDER BY seq DESC LIMIT -1 OFFSET ?';
    this.#run(`DELETE FROM dead WHERE seq IN (${beyond})`, [keep]);
  }

  /** Returns the size of the file, without the write-ahead log. */
  fileBytes(): number {
    const pages = Number(this.#all('PRAGMA page_count')[0]?.['page_count']);
    return pages * Number(this.#all('PRAGMA page_size')[0]?.['page_size']);
  }

  /** Returns the space of deleted rows to the file system. Costs nothing while there are few rows. */
  shrink(): void {
    guarded(() => this.#db.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)'));
  }

  /** Takes longer the more rows there are: about 0.2 s for a million. */
  #countRows(): void {
    for (const rowClass of rowClasses) Object.assign(this.totals[rowClass], this.#amount(rangeOf(rowClass)));
  }

  #amount(range: SeqRange, stream?: number): Amount {
    const { where, values } = rowsIn(range, stream);
    const bytes = `coalesce(sum(octet_length(value) + ${pointOverheadBytes}), 0)`;
    const [row] = this.#all(`SELECT count(*) AS points, ${bytes} AS bytes ${where}`, values);
    return { points: Number(row?.['points']), bytes: Number(row?.['bytes']) };
  }

  #all(sql: string, values: readonly SQLInputValue[] = []): readonly Row[] {
    return guarded(() => this.#statement(sql, true).all(...values));
  }

  #run(sql: string, values: readonly SQLInputValue[]): void {
    guarded(() => this.#statement(sql, true).run(...values));
  }

  #statement(sql: string, keep: boolean): StatementSync {
    const kept = this.#statements.get(sql);
    if (kept !== undefined) return kept;
    const statement = this.#db.prepare(sql);
    if (keep) this.#statements.set(sql, statement);
    return statement;
  }
}

function rowsIn({ first, last }: SeqRange, stream?: number): { where: string; values: readonly number[] } {
  const where = 'FROM points WHERE seq BETWEEN ? AND ?';
  return stream === undefined
    ? { where, values: [first, last] }
    : { where: `${where} AND stream = ?`, values: [first, last, stream] };
}

function storedPoint(row: Row): StoredPoint {
  return {
    seq: Number(row['seq']),
    stream: Number(row['stream']),
    atMs: optionalNumber(row['at']),
    boot: Number(row['boot']),
    sinceBootMs: Number(row['ms']),
    text: String(row['value']),
  };
}

function optionalNumber(value: SQLOutputValue | undefined): number | undefined {
  return value === null || value === undefined ? undefined : Number(value);
}

/**
 * Opens a database for this process alone. Otherwise SQLite would map a file into memory to share it (`-shm`), and a
 * full disk would end the process by SIGBUS if the blocks of the file system are smaller than a page, as mkfs.ext4
 * makes them below 512 MiB.
 */
function openExclusive(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  db.exec('PRAGMA locking_mode = EXCLUSIVE');
  return db;
}
